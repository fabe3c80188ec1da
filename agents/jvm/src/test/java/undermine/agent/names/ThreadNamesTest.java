package undermine.agent.names;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.lang.invoke.MethodHandles;
import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** Threads with the same name get different numbers; free numbers are reused. */
class ThreadNamesTest {
    private static Class<?> virtual;
    private final ThreadNames names = new ThreadNames();

    private static Thread thread(String name) {
        return new Thread(null, null, name);
    }

    @Test
    void livingThreadsOfOneNameAreNumbered() {
        Thread first = thread("worker");
        Thread second = thread("worker");
        assertEquals("worker", names.take(first));
        assertEquals("worker#2", names.take(second));
        assertEquals("worker#3", names.take(thread("worker")));
        assertEquals("worker#2", names.get(second));
        names.giveBack(second);
        assertNull(names.get(second));
        assertEquals("worker#2", names.take(thread("worker")));
        names.giveBack(first);
        assertEquals("worker", names.take(thread("worker")));
    }

    @Test
    void aThreadKeepsItsFirstName() {
        Thread thread = thread("first");
        names.take(thread);
        thread.setName("second");
        assertEquals("first", names.take(thread));
    }

    @Test
    void namesOfEndedThreadsAreFree() throws InterruptedException {
        Thread ended = thread("worker");
        names.take(ended);
        ended.start();
        ended.join();
        assertEquals("worker", names.take(thread("worker")));
    }

    @Test
    void threadsWithoutNamesAreNumberedToo() {
        Thread first = thread("");
        assertEquals("?#1", names.take(first));
        assertEquals("?#2", names.take(thread("")));
        assertEquals("?#1", names.get(first));
        names.giveBack(first);
        assertNull(names.get(first));
        assertEquals("?#3", names.take(thread("")));
    }

    /** Virtual threads without a name, of which there may be very many. */
    @Test
    void virtualThreadsWithoutNamesTakeNoLockAndLeaveNothing() throws Exception {
        Thread first = virtual();
        Thread kept = virtual();
        WeakReference<Thread> second = new WeakReference<Thread>(kept);
        List<String> called = new CopyOnWriteArrayList<String>();
        Thread other = new Thread(() -> {
            called.add(names.take(first));
            names.giveBack(first);
            called.add(names.take(second.get()));
        });
        synchronized (names) {
            other.start();
            other.join(20_000);
            assertEquals(Arrays.asList("?#1", "?#2"), called);
        }
        Reference.reachabilityFence(kept);
        kept = null;
        for (int i = 0; i < 500 && second.get() != null; i++) {
            System.gc();
            Thread.sleep(10);
        }
        assertNull(second.get());
    }

    /** A stand-in for a virtual thread, also on JDKs that have none. */
    private static Thread virtual() throws Exception {
        if (virtual == null) {
            ClassWriter made = new ClassWriter(ClassWriter.COMPUTE_MAXS);
            made.visit(Opcodes.V1_8, Opcodes.ACC_PUBLIC, "java/lang/LikeVirtualThread", null, "java/lang/Thread", null);
            MethodVisitor method = made.visitMethod(Opcodes.ACC_PUBLIC, "<init>", "()V", null, null);
            method.visitCode();
            method.visitVarInsn(Opcodes.ALOAD, 0);
            method.visitLdcInsn("");
            method.visitMethodInsn(Opcodes.INVOKESPECIAL, "java/lang/Thread", "<init>", "(Ljava/lang/String;)V", false);
            method.visitInsn(Opcodes.RETURN);
            method.visitMaxs(0, 0);
            method.visitEnd();
            made.visitEnd();
            virtual = MethodHandles.privateLookupIn(Thread.class, MethodHandles.lookup()).defineClass(made.toByteArray());
        }
        return (Thread) virtual.getConstructor().newInstance();
    }

    @Test
    void nothingIsKeptOfManyThreadsThatEnded() throws InterruptedException {
        for (int i = 0; i < 600; i++) {
            Thread thread = thread("t" + i);
            names.take(thread);
            thread.start();
            thread.join();
        }
        assertEquals("t1", names.take(thread("t1")));
    }
}
