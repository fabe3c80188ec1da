package undermine.agent.own;

import java.util.ArrayList;
import java.util.List;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/**
 * Weaves a `synchronized` method with hooks around its monitor.
 *
 * If it may be opened, the flag is removed and the method enters the monitor itself, so that the wait is recorded.
 * Otherwise it has the monitor already when the first hook is called.
 */
public final class SynchronizedMethod extends MethodVisitor {
    private static final String MONITORS = "undermine/agent/sync/MonitorHooks";
    private static final String TAKES = "(Ljava/lang/Object;)V";

    private final String owner;
    private final boolean isStatic;
    private final boolean isOpened;
    private final boolean hasFrames;
    private final long site;
    private final List<Label> ranges = new ArrayList<Label>();
    private Label start = new Label();

    SynchronizedMethod(MethodVisitor next, String owner, boolean isStatic, boolean isOpened, boolean hasFrames, long site) {
        super(Opcodes.ASM9, next);
        this.owner = owner;
        this.isStatic = isStatic;
        this.isOpened = isOpened;
        this.hasFrames = hasFrames;
        this.site = site;
    }

    /** The method overwrites `this`, so it can't be guarded. No Java compiler generates this. */
    @SuppressWarnings("serial")
    static final class Impossible extends RuntimeException {
        Impossible() {
            super(null, null, false, false);
        }
    }

    @Override
    public void visitVarInsn(int opcode, int slot) {
        if (slot == 0 && !isStatic && opcode >= Opcodes.ISTORE && opcode <= Opcodes.ASTORE) {
            throw new Impossible();
        }
        super.visitVarInsn(opcode, slot);
    }

    /** Enter the monitor that is twice on the stack, with hooks around it. */
    static void enter(MethodVisitor into, long site) {
        push(into, site);
        into.visitMethodInsn(Opcodes.INVOKESTATIC, MONITORS, "entering", "(Ljava/lang/Object;III)V", false);
        into.visitInsn(Opcodes.MONITORENTER);
        into.visitMethodInsn(Opcodes.INVOKESTATIC, MONITORS, "entered", "()V", false);
    }

    /**
     * In three parts of 16 bits: a larger constant would have to be loaded, and so would count as a place that may run
     * code (see CallCounter).
     */
    static void push(MethodVisitor into, long site) {
        for (int shift = 32; shift >= 0; shift -= 16) {
            into.visitIntInsn(Opcodes.SIPUSH, (short) (site >>> shift));
        }
    }

    private void loadMonitor() {
        if (isStatic) {
            super.visitLdcInsn(Type.getObjectType(owner));
        } else {
            super.visitVarInsn(Opcodes.ALOAD, 0);
        }
    }

    @Override
    public void visitCode() {
        super.visitCode();
        loadMonitor();
        if (isOpened) {
            super.visitInsn(Opcodes.DUP);
            enter(mv, site);
        } else {
            push(mv, site);
            super.visitMethodInsn(Opcodes.INVOKESTATIC, MONITORS, "got", "(Ljava/lang/Object;III)V", false);
        }
        super.visitLabel(start);
    }

    @Override
    public void visitInsn(int opcode) {
        boolean isReturn = opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN;
        if (!isReturn) {
            super.visitInsn(opcode);
            return;
        }
        Label stop = new Label();
        super.visitLabel(stop);
        ranges.add(start);
        ranges.add(stop);
        leave();
        super.visitInsn(opcode);
        start = new Label();
        super.visitLabel(start);
    }

    private void leave() {
        loadMonitor();
        super.visitMethodInsn(Opcodes.INVOKESTATIC, MONITORS, "leaving", TAKES, false);
        if (isOpened) {
            loadMonitor();
            super.visitInsn(Opcodes.MONITOREXIT);
        }
    }

    /** Must be last in the table of handlers, so that the method's own handlers come first. */
    @Override
    public void visitMaxs(int maxStack, int maxLocals) {
        Label stop = new Label();
        super.visitLabel(stop);
        ranges.add(start);
        ranges.add(stop);
        boolean isGuarded = false;
        for (int i = 0; i < ranges.size(); i += 2) {
            if (ranges.get(i).getOffset() < ranges.get(i + 1).getOffset()) {
                super.visitTryCatchBlock(ranges.get(i), ranges.get(i + 1), stop, null);
                isGuarded = true;
            }
        }
        if (hasFrames) {
            Object[] locals = isStatic ? new Object[0] : new Object[] {owner};
            super.visitFrame(Opcodes.F_FULL, locals.length, locals, 1, new Object[] {"java/lang/Throwable"});
        }
        if (isGuarded || hasFrames) {
            leave();
            super.visitInsn(Opcodes.ATHROW);
        }
        super.visitMaxs(maxStack, maxLocals);
    }
}
