package undermine.agent.own;

import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassTooLargeException;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.FieldVisitor;
import org.objectweb.asm.Handle;
import org.objectweb.asm.MethodTooLargeException;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import undermine.agent.lib.Checksum;
import undermine.agent.wire.Config;

/**
 * Weaves a class of the target for the families that are only observed: it replaces calls (see ReplacedCalls) and puts
 * hooks around monitors. Call sites keep their ordinals: see CallCounter.
 */
public final class CallWeaver {
    private static final int SYNCHRONIZED_OR_NO_CODE = Opcodes.ACC_SYNCHRONIZED | Opcodes.ACC_NATIVE | Opcodes.ACC_ABSTRACT;
    private static final String MONITORS = "undermine/agent/sync/MonitorHooks";
    private final ReplacedCalls calls;
    private final BaseClasses bases = new BaseClasses();
    private final boolean hasMonitors;
    private final boolean hasClocks;
    private final boolean hasHeap;
    private final String purpose;

    public CallWeaver(Config config) {
        calls = new ReplacedCalls(config);
        hasMonitors = config.observes("sync");
        hasClocks = config.observes("time");
        hasHeap = config.heap;
        StringBuilder families = new StringBuilder();
        for (String family : new String[] {"sync", "handover", "time"}) {
            families.append(config.observes(family) ? "-" + family : "");
        }
        purpose = families + (hasHeap ? "-heap" : "");
    }

    /** The observed families: classes woven for others are different. */
    public String purpose() {
        return purpose;
    }

    /** A woven class. */
    public static final class Woven {
        /** Null if nothing is changed. */
        public final byte[] bytes;
        /** Lines of a class and its base class in the JDK, on which the result depends too. */
        public final String bases;
        /** True if its heap accesses are not woven, because the class would be too large for the JVM. */
        public final boolean isWithoutHeap;

        Woven(byte[] bytes, String bases, boolean isWithoutHeap) {
            this.bytes = bytes;
            this.bases = bases;
            this.isWithoutHeap = isWithoutHeap;
        }
    }

    /** True if these lines are still correct. */
    public boolean areBases(ClassLoader loader, String lines) {
        for (int from = 0; from < lines.length();) {
            int to = lines.indexOf('\n', from);
            int space = lines.indexOf(' ', from);
            if (!bases.of(loader, lines.substring(from, space)).equals(lines.substring(space + 1, to))) {
                return false;
            }
            from = to + 1;
        }
        return true;
    }

    public Woven woven(ClassLoader loader, byte[] bytes) {
        try {
            return woven(loader, bytes, hasHeap);
        } catch (MethodTooLargeException large) {
            return withoutHeap(loader, bytes, large);
        } catch (ClassTooLargeException large) {
            return withoutHeap(loader, bytes, large);
        }
    }

    private Woven withoutHeap(ClassLoader loader, byte[] bytes, RuntimeException large) {
        if (!hasHeap) {
            throw large;
        }
        return woven(loader, bytes, false);
    }

    private Woven woven(ClassLoader loader, byte[] bytes, boolean withHeap) {
        try {
            return woven(loader, bytes, withHeap, hasMonitors);
        } catch (SynchronizedMethod.Impossible other) {
            return woven(loader, bytes, withHeap, false);
        }
    }

    private Woven woven(ClassLoader loader, byte[] bytes, boolean withHeap, boolean withMethods) {
        ClassReader reader = new ClassReader(bytes);
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        HeapHome heap = withHeap ? new HeapHome(reader, bytes) : null;
        Weaving weaving = new Weaving(writer, loader, withMethods, Checksum.of(bytes) << 16, heap);
        reader.accept(weaving, 0);
        boolean isChanged = weaving.isChanged || withHeap && heap.isChanged;
        return new Woven(isChanged ? writer.toByteArray() : null, weaving.based.toString(), hasHeap && !withHeap);
    }

    private final class Weaving extends ClassVisitor implements ClockComparisons.Numbers {
        boolean isChanged;
        final StringBuilder based = new StringBuilder();
        final ClassLoader loader;
        private String owner;
        private boolean hasFrames;
        /** True if the code may contain class constants. */
        private boolean hasConstants;
        /** False if the removal of `synchronized` from a method could be noticed. */
        private boolean mayChangeFlags;

        /** True if `synchronized` methods are woven. */
        private final boolean withMethods;
        /** The last numbered call site: 32 bits for the class, 16 bits that count. */
        private long site;
        /** Null if heap accesses are not woven. */
        private final HeapHome heap;

        Weaving(ClassVisitor next, ClassLoader loader, boolean withMethods, long site, HeapHome heap) {
            super(Opcodes.ASM9, next);
            this.loader = loader;
            this.withMethods = withMethods;
            this.site = site;
            this.heap = heap;
        }

        @Override
        public long nextSite() {
            return ++site;
        }

        @Override
        public long lastSite() {
            return site;
        }

        /** The replacement of a call, or null; also for methods of classes that extend one of the JDK's. */
        ReplacedCalls.Replacement instead(String called, String name, String descriptor) {
            ReplacedCalls.Replacement found = calls.instead(called, name, descriptor);
            if (found != null || called.startsWith("java/") || !calls.isNamed(name, descriptor)) {
                return found;
            }
            String base = bases.of(loader, called);
            found = calls.instead(base, name, descriptor);
            String line = called + " " + base + "\n";
            if (found != null && based.indexOf(line) < 0) {
                based.append(line);
            }
            return found;
        }

        @Override
        public void visit(int version, int access, String name, String signature, String superName, String[] interfaces) {
            super.visit(version, access, name, signature, superName, interfaces);
            owner = name;
            hasFrames = (version & 0xffff) >= Opcodes.V1_6;
            hasConstants = (version & 0xffff) >= Opcodes.V1_5;
            mayChangeFlags = hasFrames && !maySerialize(loader, superName, interfaces);
        }

        @Override
        public FieldVisitor visitField(int access, String name, String descriptor, String signature, Object value) {
            mayChangeFlags |= hasFrames && name.equals("serialVersionUID");
            return super.visitField(access, name, descriptor, signature, value);
        }

        @Override
        public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] thrown) {
            boolean isStatic = (access & Opcodes.ACC_STATIC) != 0;
            boolean isSynchronized = withMethods && (access & SYNCHRONIZED_OR_NO_CODE) == Opcodes.ACC_SYNCHRONIZED
                    && (hasConstants || !isStatic);
            boolean isOpened = isSynchronized && mayChangeFlags;
            int flags = isOpened ? access & ~Opcodes.ACC_SYNCHRONIZED : access;
            MethodVisitor next = super.visitMethod(flags, name, descriptor, signature, thrown);
            if (isSynchronized) {
                isChanged = true;
                next = new SynchronizedMethod(next, owner, isStatic, isOpened, hasFrames, nextSite());
            }
            MethodVisitor replacing = new Replacing(heap == null ? next : heap.woven(next, name, descriptor), this);
            return hasClocks ? new ClockComparisons(replacing, this, hasFrames) : replacing;
        }
    }

    /** True if instances may be serialized: the default serialVersionUID depends on the flags of methods. */
    private boolean maySerialize(ClassLoader loader, String superName, String[] interfaces) {
        boolean found = superName != null && bases.maySerialize(loader, superName);
        for (int i = 0; interfaces != null && i < interfaces.length; i++) {
            found |= bases.maySerialize(loader, interfaces[i]);
        }
        return found;
    }

    /** Replaces calls, and puts hooks around monitors. */
    private final class Replacing extends MethodVisitor {
        private final Weaving weaving;

        Replacing(MethodVisitor next, Weaving weaving) {
            super(Opcodes.ASM9, next);
            this.weaving = weaving;
        }

        @Override
        public void visitMethodInsn(int opcode, String owner, String name, String descriptor, boolean isInterface) {
            ReplacedCalls.Replacement instead =
                    opcode == Opcodes.INVOKESPECIAL ? null : weaving.instead(owner, name, descriptor);
            if (instead == null) {
                super.visitMethodInsn(opcode, owner, name, descriptor, isInterface);
                return;
            }
            weaving.isChanged = true;
            String called = instead.descriptor;
            if (instead.isNumbered) {
                SynchronizedMethod.push(mv, weaving.nextSite());
                called = called.replace(")", "III)");
            }
            super.visitMethodInsn(Opcodes.INVOKESTATIC, instead.owner, name, called, false);
        }

        @Override
        public void visitInvokeDynamicInsn(String name, String descriptor, Handle bootstrap, Object... arguments) {
            Object[] changed = arguments;
            for (int i = 0; i < arguments.length; i++) {
                Object other = arguments[i] instanceof Handle ? replaced((Handle) arguments[i]) : arguments[i];
                if (other != arguments[i]) {
                    changed = changed == arguments ? arguments.clone() : changed;
                    changed[i] = other;
                    weaving.isChanged = true;
                }
            }
            super.visitInvokeDynamicInsn(name, descriptor, bootstrap, changed);
        }

        /** Replace a method reference (`lock::unlock`). */
        private Object replaced(Handle handle) {
            int tag = handle.getTag();
            boolean isCall = tag == Opcodes.H_INVOKEVIRTUAL || tag == Opcodes.H_INVOKEINTERFACE || tag == Opcodes.H_INVOKESTATIC;
            ReplacedCalls.Replacement instead =
                    isCall ? weaving.instead(handle.getOwner(), handle.getName(), handle.getDesc()) : null;
            return instead == null ? handle
                    : new Handle(Opcodes.H_INVOKESTATIC, instead.owner, handle.getName(), instead.descriptor, false);
        }

        @Override
        public void visitInsn(int opcode) {
            boolean isEntering = opcode == Opcodes.MONITORENTER;
            if (!hasMonitors || !isEntering && opcode != Opcodes.MONITOREXIT) {
                super.visitInsn(opcode);
                return;
            }
            weaving.isChanged = true;
            super.visitInsn(Opcodes.DUP);
            if (isEntering) {
                SynchronizedMethod.enter(mv, weaving.nextSite());
            } else {
                super.visitMethodInsn(Opcodes.INVOKESTATIC, MONITORS, "leaving", "(Ljava/lang/Object;)V", false);
                super.visitInsn(opcode);
            }
        }
    }
}
