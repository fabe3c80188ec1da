package undermine.agent.weave;

import java.lang.instrument.ClassFileTransformer;
import java.nio.charset.StandardCharsets;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.FieldVisitor;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import undermine.agent.classfiles.ClassBytes;
import undermine.agent.hooks.LogicalOperations;
import undermine.agent.lib.Checksum;
import undermine.agent.lib.Utf8;
import undermine.agent.net.NettyHooks;
import undermine.agent.net.NettySocketClass;
import undermine.agent.operations.LogicalMethod;
import undermine.agent.own.CallWeaver;
import undermine.agent.record.AgentCore;
import undermine.agent.record.Ops;
import undermine.agent.record.ThreadState;

/** Weaves the methods of the tables, the methods that the user named, and calls of some native methods. */
public final class Weaver implements ClassFileTransformer {
    /** The prefix of a cache key for the base classes that a woven class depends on. */
    private static final String BASES = "bases of ";
    private final AgentCore agent;
    private final Map<String, Map<String, WovenMethod>> points = new HashMap<String, Map<String, WovenMethod>>();
    private final NativeCalls natives = new NativeCalls();
    private final WovenClassCache kept;
    /** Null if no family is observed that needs calls to be woven. */
    private final CallWeaver calls;
    private final WovenClassCache keptCalls;
    /** Classes with numbered call sites, by the checksum with which these numbers begin. */
    private final Map<Long, String> numbered = new ConcurrentHashMap<Long, String>();
    private final OverriddenMethods overridden = new OverriddenMethods(LogicalOperations.all());
    private volatile boolean hasNetty;

    public Weaver(AgentCore agent, WovenClassCache kept, String[][]... tables) {
        this.agent = agent;
        this.kept = kept;
        calls = agent == null || !agent.config.observesCalls() ? null : new CallWeaver(agent.config);
        keptCalls = calls == null ? null : new WovenClassCache(agent.config.woven, calls.purpose());
        for (String[][] table : tables) {
            for (String[] row : table) {
                Map<String, WovenMethod> ofClass = points.get(row[0]);
                if (ofClass == null) {
                    ofClass = new HashMap<String, WovenMethod>();
                    points.put(row[0], ofClass);
                }
                ofClass.put(row[1], new WovenMethod(row[2], row.length > 3 ? row[3] : null));
            }
        }
    }

    /** Loads the classes that hooks in Netty need: programs without Netty don't pay for them. */
    private void meetNetty() throws ClassNotFoundException {
        if (!hasNetty) {
            Class.forName(NettySocketClass.class.getName(), true, null);
            Class.forName(NettyHooks.class.getName(), true, null);
            hasNetty = true;
        }
    }

    /** True once Netty's native transport has been loaded by the target. */
    public boolean hasNetty() {
        return hasNetty;
    }

    /** The loaded classes that have methods to weave. */
    public Class<?>[] wanted(Class<?>[] loaded) {
        List<Class<?>> found = new ArrayList<Class<?>>();
        for (Class<?> each : loaded) {
            String name = each.getClassLoader() == null ? each.getName().replace('.', '/') : "";
            if (points.containsKey(name) || LogicalOperations.of(name) != null) {
                found.add(each);
            }
        }
        return found.toArray(new Class<?>[0]);
    }

    @Override
    public byte[] transform(ClassLoader loader, String name, Class<?> type, ProtectionDomain domain, byte[] bytes) {
        if (name == null || name.startsWith("undermine/agent/")) {
            return null;
        }
        ThreadState state = ThreadState.get();
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            return loader == null ? ofJdk(name, bytes) : ofTarget(loader, name, bytes);
        } catch (Throwable trouble) {
            agent.note(trouble);
            return null;
        } finally {
            state.busy = wasBusy;
        }
    }

    private byte[] ofJdk(String name, byte[] bytes) {
        Map<String, WovenMethod> ofClass = points.get(name);
        List<LogicalMethod> named = LogicalOperations.of(name);
        byte[] changed = ofClass == null ? null : withPoints(name, bytes, ofClass);
        return named == null ? changed : withNamed(name, changed == null ? bytes : changed, named);
    }

    private byte[] withPoints(String name, byte[] bytes, Map<String, WovenMethod> ofClass) {
        String key = WovenClassCache.key(name + "/" + ofClass.size(), bytes); // the number of methods to weave may differ
        byte[] changed = kept.get(key);
        if (changed != null) {
            return changed;
        }
        List<String> left = new ArrayList<String>();
        changed = woven(name, bytes, ofClass, left);
        if (left.isEmpty()) {
            kept.put(key, changed);
        } else {
            agent.note(new IllegalStateException("not seen here: " + name + " " + left));
        }
        return changed;
    }

    /** Weave a class. Methods whose hooks need a missing field are put into `left`. */
    static byte[] woven(final String owner, byte[] bytes, final Map<String, WovenMethod> ofClass, final List<String> left) {
        ClassReader reader = new ClassReader(bytes);
        final JdkFields fields = new JdkFields(owner, reader.getSuperName());
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
            @Override
            public FieldVisitor visitField(int access, String name, String descriptor, String signature, Object value) {
                fields.add(name, descriptor);
                return super.visitField(access, name, descriptor, signature, value);
            }

            @Override
            public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] thrown) {
                MethodVisitor next = super.visitMethod(access, name, descriptor, signature, thrown);
                WovenMethod point = ofClass.get(name + descriptor);
                if (point == null || hasNoCode(access)) {
                    return next;
                }
                if (fields.missing(point) != null) {
                    left.add(name + " (no " + fields.missing(point) + ")");
                    return next;
                }
                if (point.entry.isInside) {
                    return new Running(next, point.entry);
                }
                return new Advice(next, owner, (access & Opcodes.ACC_STATIC) != 0, descriptor, point);
            }
        }, 0);
        return writer.toByteArray();
    }

    /** A method in which calls of `run` are replaced. */
    private static final class Running extends MethodVisitor {
        private final WovenMethod.Hook instead;

        Running(MethodVisitor next, WovenMethod.Hook instead) {
            super(Opcodes.ASM9, next);
            this.instead = instead;
        }

        @Override
        public void visitMethodInsn(int opcode, String owner, String name, String descriptor, boolean isInterface) {
            boolean isOne = name.equals("run") && descriptor.equals("()V") && opcode != Opcodes.INVOKESTATIC;
            if (isOne) {
                super.visitMethodInsn(Opcodes.INVOKESTATIC, instead.owner, instead.name, "(Ljava/lang/Runnable;)V", false);
            } else {
                super.visitMethodInsn(opcode, owner, name, descriptor, isInterface);
            }
        }
    }

    static boolean hasNoCode(int access) {
        return (access & (Opcodes.ACC_NATIVE | Opcodes.ACC_ABSTRACT)) != 0;
    }

    private byte[] ofTarget(ClassLoader loader, String name, byte[] bytes) throws ClassNotFoundException {
        List<LogicalMethod> named = new ArrayList<LogicalMethod>(overridden.of(loader, name, bytes));
        if (LogicalOperations.of(name) != null) {
            named.addAll(0, LogicalOperations.of(name));
        }
        byte[] changed = named.isEmpty() ? bytes : withNamed(name, bytes, named);
        boolean isOfTarget = agent.sites.isOfTarget(name.replace('/', '.'));
        Map<String, WovenMethod> ofNetty = NettyMethods.of(name, Ops.poll != null && isOfTarget);
        if (ofNetty != null) {
            meetNetty();
            changed = withPoints(name, changed, ofNetty);
        }
        Map<String, WovenMethod> given = Ops.give == null ? null : NettyMethods.handover(name);
        changed = given == null ? changed : withPoints(name, changed, given);
        if (agent.variables.watches(name)) {
            agent.variables.loading(name, loader);
            changed = withConstructors(name, changed);
        }
        if (isOfTarget) {
            changed = calls == null ? changed : withCalls(loader, name, changed);
            ClassBytes.loaded(loader, name, changed); // the steps below change no index
        }
        byte[] result = natives.mayBeIn(changed) ? withoutNatives(name, changed) : null;
        return result != null ? result : changed == bytes ? null : changed;
    }

    private byte[] withCalls(ClassLoader loader, String name, byte[] bytes) {
        String other = numbered.putIfAbsent(Checksum.of(bytes), name);
        if (other != null && !other.equals(name)) { // its call sites would be confused with the other class's
            agent.note(new IllegalStateException(
                    "locks, queues and clocks are not seen in " + name + ": its sum is that of " + other));
            return bytes;
        }
        String key = WovenClassCache.key(name, bytes);
        byte[] changed = keptCalls.get(key);
        byte[] bases = keptCalls.get(BASES + key);
        if (changed == null || bases != null && !calls.areBases(loader, new String(bases, StandardCharsets.UTF_8))) {
            changed = wovenCalls(loader, key, bytes);
        }
        return changed == null || changed.length == 0 ? bytes : changed;
    }

    private byte[] wovenCalls(ClassLoader loader, String key, byte[] bytes) {
        try {
            CallWeaver.Woven woven = calls.woven(loader, bytes);
            if (woven.isWithoutHeap) {
                agent.note(new IllegalStateException("heap accesses are not seen in " + key + ": the class would be too large"));
            }
            if (!woven.bases.isEmpty()) {
                keptCalls.put(BASES + key, Utf8.bytes(woven.bases));
            }
            if (woven.bases.isEmpty() || keptCalls.get(BASES + key) != null) {
                keptCalls.put(key, woven.bytes);
            }
            return woven.bytes;
        } catch (RuntimeException tooLarge) { // the woven method is too large for the JVM, or the class file too new for ASM
            agent.note(tooLarge);
            return null;
        }
    }

    /** Save newly woven classes for the next JVM. */
    public void save() {
        kept.save();
        if (keptCalls != null) {
            keptCalls.save();
        }
    }

    private byte[] withoutNatives(String name, byte[] bytes) {
        String key = WovenClassCache.key(name, bytes);
        byte[] changed = kept.get(key);
        if (changed == null) {
            changed = natives.woven(bytes);
            kept.put(key, changed);
        }
        return changed == null || changed.length == 0 ? null : changed;
    }

    /** Weave a class at which a variable's path starts: its constructors report new instances. */
    private static byte[] withConstructors(final String owner, byte[] bytes) {
        ClassReader reader = new ClassReader(bytes);
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] thrown) {
                MethodVisitor next = super.visitMethod(access, name, descriptor, signature, thrown);
                return name.equals("<init>") ? new Telling(next, owner) : next;
            }
        }, 0);
        return writer.toByteArray();
    }

    /** A constructor that reports the instance when it ends. */
    private static final class Telling extends MethodVisitor {
        private final String owner;

        Telling(MethodVisitor next, String owner) {
            super(Opcodes.ASM9, next);
            this.owner = owner;
        }

        @Override
        public void visitInsn(int opcode) {
            if (opcode == Opcodes.RETURN) {
                super.visitLdcInsn(owner);
                super.visitVarInsn(Opcodes.ALOAD, 0);
                String takes = "(Ljava/lang/String;Ljava/lang/Object;)V";
                super.visitMethodInsn(Opcodes.INVOKESTATIC, Advice.HOOKS, "made", takes, false);
            }
            super.visitInsn(opcode);
        }
    }

    // --- methods that the user named

    private byte[] withNamed(final String owner, byte[] bytes, final List<LogicalMethod> named) {
        ClassReader reader = new ClassReader(bytes);
        final Map<String, Integer> numbers = numbers(reader, named);
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] thrown) {
                MethodVisitor next = super.visitMethod(access, name, descriptor, signature, thrown);
                Integer number = numbers.get(name + descriptor);
                if (number == null) {
                    return next;
                }
                return new LogicalAdvice(next, owner, (access & Opcodes.ACC_STATIC) != 0, descriptor, number);
            }
        }, 0);
        return writer.toByteArray();
    }

    /** The numbers of the methods to weave, by name and descriptor. */
    private Map<String, Integer> numbers(ClassReader reader, List<LogicalMethod> named) {
        Map<String, Integer> numbers = new HashMap<String, Integer>();
        Map<String, List<String>> parameters = ParameterNames.of(reader);
        for (LogicalMethod method : named) {
            boolean isThere = false;
            for (Map.Entry<String, List<String>> entry : parameters.entrySet()) {
                int open = entry.getKey().indexOf('(');
                String descriptor = entry.getKey().substring(open);
                if (method.is(entry.getKey().substring(0, open), ParameterNames.simple(descriptor))) {
                    isThere = true;
                    number(numbers, reader.getClassName(), method, entry, descriptor);
                }
            }
            if (!isThere && !OverriddenMethods.isDeclared(reader, method.name)) {
                agent.note(new IllegalArgumentException("logical operation " + method.text + ": there is no such method"));
            }
        }
        return numbers;
    }

    private void number(Map<String, Integer> numbers, String owner, LogicalMethod method,
            Map.Entry<String, List<String>> entry, String descriptor) {
        try {
            boolean isOfTarget = agent.sites.isOfTarget(owner.replace('/', '.'));
            int count = Type.getArgumentTypes(descriptor).length;
            numbers.put(entry.getKey(), LogicalOperations.woven(method, entry.getValue(), descriptor, count, isOfTarget));
        } catch (IllegalArgumentException trouble) {
            agent.note(trouble);
        }
    }
}
