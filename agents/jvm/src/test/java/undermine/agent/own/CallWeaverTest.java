package undermine.agent.own;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.io.Serializable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.junit.jupiter.api.Test;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import undermine.agent.process.ProcessIds;
import undermine.agent.stacks.CallCounter;
import undermine.agent.wire.Config;

/** A woven class behaves as before, and its calls are counted as before. */
class CallWeaverTest {
    /** The class to weave. */
    public static class Target {
        private final ReentrantLock lock = new ReentrantLock();

        public synchronized long held(long wide, int count, String text) {
            for (int i = 0; i < count; i++) {
                wide += text.length();
            }
            if (wide > 100) {
                throw new IllegalStateException("too much");
            }
            return wide;
        }

        public static synchronized boolean isHeld() {
            return Thread.holdsLock(Target.class);
        }

        public String ordered(Object monitor) throws InterruptedException {
            LinkedBlockingQueue<String> queue = new LinkedBlockingQueue<>();
            synchronized (monitor) {
                lock.lock();
                try {
                    queue.put(String.valueOf(Thread.holdsLock(monitor)));
                    monitor.notifyAll();
                } finally {
                    lock.unlock();
                }
            }
            return queue.take();
        }

        public int nothing() {
            return Math.max(1, 2);
        }
    }

    /** A serializable class, which must keep its flags. */
    @SuppressWarnings("serial")
    public static class Kept implements Serializable {
        public synchronized int held() {
            return 3;
        }
    }

    /** A class that compares clock readings in many ways. */
    public static class Timed {
        private final long[] limits = {Long.MAX_VALUE, -1};

        public String late(boolean isLong, int which) throws InterruptedException {
            long start = System.nanoTime();
            long begun = System.currentTimeMillis();
            long deadline = begun + (isLong ? limits[0] / 2 : limits[1]);
            StringBuilder found = new StringBuilder();
            for (int i = 0; i < 2; i++) {
                long limit = isLong ? limits[0] : limits[1];
                found.append(System.nanoTime() - start > limit ? 'l' : '-');
                found.append(limit < System.nanoTime() - start ? 'l' : '-');
                found.append((int) (System.currentTimeMillis() - begun) > (int) (limit >> 40) ? 'l' : '-');
                found.append(System.currentTimeMillis() > deadline ? 'l' : '-');
                found.append(deadline - System.currentTimeMillis() <= 0 ? 'l' : '-');
                found.append(Math.max(0, System.nanoTime() - start) >= (which == 0 ? limit : limits[which]) ? 'l' : '-');
                long spent;
                found.append((spent = System.nanoTime() - start) > limit && spent * 2.0 > spent ? 'l' : '-');
                switch (which) {
                    case 0:
                        found.append(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start) > limit ? 'l' : '-');
                        break;
                    default:
                        found.append(System.nanoTime() - start == limit ? 'l' : '-');
                }
                try {
                    found.append(new long[] {System.nanoTime() - start}[0] / 1000 > limit ? 'l' : '-');
                } finally {
                    start = start + 0;
                }
            }
            return found.toString();
        }
    }

    /** A class with accesses to the heap, and calls between them. */
    public static class Shared {
        private static long total;
        private final Map<String, long[]> counts = new HashMap<>();
        private double share;
        private Shared next;

        public Shared() {
            this(new StringBuilder("a").append(1).toString());
        }

        private Shared(String name) {
            counts.put(name, new long[] {1, name.length()});
        }

        public String all(String name) {
            long[] found = counts.get(name);
            total += found[1]++;
            share = total / 2.0 + Math.sqrt(share);
            next = next == null ? new Shared(name) : next;
            for (String each : counts.keySet()) {
                total += each.length() + (each.isEmpty() ? new Shared().next.total : 0);
            }
            return found[1] + " " + total + " " + share + " " + next.counts.size();
        }
    }

    /** A class without anything to weave. */
    public static class Plain {
        public int sum(int one, int other) {
            return Math.addExact(one, other);
        }
    }

    /** A class with a method of nearly the largest size, full of accesses. */
    private static final class TooLarge {
        static byte[] bytes() {
            ClassWriter writer = new ClassWriter(0);
            writer.visit(Opcodes.V1_8, Opcodes.ACC_PUBLIC, "app/Large", null, "java/lang/Object", null);
            writer.visitField(Opcodes.ACC_STATIC, "count", "I", null, null);
            MethodVisitor code = writer.visitMethod(Opcodes.ACC_STATIC, "run", "()V", null, null);
            for (int i = 0; i < 10_000; i++) {
                code.visitFieldInsn(Opcodes.GETSTATIC, "app/Large", "count", "I");
                code.visitFieldInsn(Opcodes.PUTSTATIC, "app/Large", "count", "I");
            }
            code.visitInsn(Opcodes.RETURN);
            code.visitMaxs(1, 0);
            code.visitEnd();
            return writer.toByteArray();
        }
    }

    private static byte[] file(Class<?> type) throws IOException {
        try (InputStream stream = type.getResourceAsStream(type.getName().replaceAll(".*\\.", "") + ".class")) {
            return stream.readAllBytes();
        }
    }

    private static CallWeaver weaver(String... families) throws IOException {
        Map<String, Object> json = new HashMap<>(Map.of("version", 2L, "incarnation", 1L, "observe", List.of(families)));
        return new CallWeaver(new Config(json, ProcessIds.read()));
    }

    private static CallWeaver.Woven woven(Class<?> type) throws IOException {
        return weaver("sync", "handover", "time").woven(type.getClassLoader(), file(type));
    }

    private static CallWeaver.Woven withHeap(Class<?> type) throws IOException {
        return heapWeaver().woven(type.getClassLoader(), file(type));
    }

    private static CallWeaver heapWeaver() throws IOException {
        Map<String, Object> json = new HashMap<>(Map.of("version", 2L, "heap", true));
        return new CallWeaver(new Config(json, ProcessIds.read()));
    }

    private static Class<?> loaded(Class<?> type) throws Exception {
        return loaded(type, woven(type).bytes);
    }

    private static Class<?> loaded(Class<?> type, byte[] bytes) throws Exception {
        return new ClassLoader(type.getClassLoader()) {
            @Override
            protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
                return name.equals(type.getName()) ? defineClass(name, bytes, 0, bytes.length) : super.loadClass(name, resolve);
            }
        }.loadClass(type.getName());
    }

    @Test
    void aWovenClassBehavesAsBefore() throws Exception {
        Class<?> type = loaded(Target.class);
        Object own = type.getDeclaredConstructor().newInstance();
        Method held = type.getMethod("held", long.class, int.class, String.class);
        assertEquals(11L, held.invoke(own, 5L, 2, "abc"));
        InvocationTargetException raised =
                assertThrows(InvocationTargetException.class, () -> held.invoke(own, 200L, 0, ""));
        assertEquals("too much", raised.getCause().getMessage());
        assertFalse(Thread.holdsLock(own));
        assertEquals(true, type.getMethod("isHeld").invoke(null));
        assertFalse(Thread.holdsLock(type));
        assertEquals("true", type.getMethod("ordered", Object.class).invoke(own, new Object()));
    }

    @Test
    void comparisonsHaveTheSameResults() throws Exception {
        Class<?> type = loaded(Timed.class);
        Object own = type.getDeclaredConstructor().newInstance();
        Method late = type.getMethod("late", boolean.class, int.class);
        assertEquals("-".repeat(18), late.invoke(own, true, 0));
        assertEquals("l".repeat(18), late.invoke(own, false, 0));
        assertEquals("-----l--------l---", late.invoke(own, true, 1));
    }

    @Test
    void accessesToTheHeapHaveTheSameResults() throws Exception {
        assertEquals(results(Shared.class), results(loaded(Shared.class, withHeap(Shared.class).bytes)));
    }

    private static List<Object> results(Class<?> type) throws Exception {
        Object own = type.getDeclaredConstructor().newInstance();
        Method all = type.getMethod("all", String.class);
        return List.of(all.invoke(own, "a1"), all.invoke(own, "a1"));
    }

    @Test
    void aMethodThatWouldBeTooLargeIsWovenWithoutHooksForTheHeap() throws IOException {
        byte[] large = TooLarge.bytes();
        CallWeaver.Woven woven = heapWeaver().woven(getClass().getClassLoader(), large);
        assertTrue(woven.isWithoutHeap);
        assertNull(woven.bytes);
    }

    @Test
    void serializableClassesKeepTheirFlags() throws Exception {
        Class<?> kept = loaded(Kept.class);
        assertTrue(Modifier.isSynchronized(kept.getMethod("held").getModifiers()));
        assertEquals(3, kept.getMethod("held").invoke(kept.getDeclaredConstructor().newInstance()));
        assertFalse(Modifier.isSynchronized(
                loaded(Target.class).getMethod("held", long.class, int.class, String.class).getModifiers()));
    }

    @Test
    void callsAreCountedAsBefore() throws Exception {
        areCountedAsBefore(Target.class, woven(Target.class));
        areCountedAsBefore(Timed.class, woven(Timed.class));
        areCountedAsBefore(Target.class, withHeap(Target.class));
        areCountedAsBefore(Timed.class, withHeap(Timed.class));
        areCountedAsBefore(Shared.class, withHeap(Shared.class));
    }

    private static void areCountedAsBefore(Class<?> type, CallWeaver.Woven woven) throws Exception {
        CallCounter before = new CallCounter(file(type));
        CallCounter after = new CallCounter(woven.bytes);
        for (CallCounter.Method method : before.methods) {
            CallCounter.Method other = after.method(method.name, method.descriptor);
            assertEquals(method.ordinal(Integer.MAX_VALUE), other.ordinal(Integer.MAX_VALUE), method.name);
            assertEquals(linesOf(method), linesOf(other), method.name);
        }
    }

    /** The line of each call. */
    private static List<Integer> linesOf(CallCounter.Method method) {
        int count = method.ordinal(Integer.MAX_VALUE);
        Integer[] lines = new Integer[count];
        for (int bci = 0, found = 0; found < count; bci++) {
            if (method.ordinal(bci + 1) > found) {
                lines[found++] = method.line(bci);
            }
        }
        return Arrays.asList(lines);
    }

    @Test
    void classesWithoutSuchCallsAreUnchanged() throws Exception {
        assertNull(woven(Plain.class).bytes);
        assertNull(withHeap(Plain.class).bytes);
        assertNull(woven(Shared.class).bytes);
        assertNull(weaver("time").woven(Target.class.getClassLoader(), file(Target.class)).bytes);
        assertNull(weaver("process", "raw").woven(Target.class.getClassLoader(), file(Target.class)).bytes);
        assertEquals("-handover-time", weaver("time", "handover", "raw").purpose());
        assertEquals("-sync-handover-time-heap", heapWeaver().purpose());
    }
}
