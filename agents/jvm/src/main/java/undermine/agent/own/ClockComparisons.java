package undermine.agent.own;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.objectweb.asm.Handle;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/**
 * Puts hooks at comparisons of clock readings, so that the limit that they are compared with is known: `limit` in
 * `now - start > limit`, and in `now > deadline` after `deadline = start + limit`.
 *
 * It follows clock readings through local variables and arithmetic, in the order of the code, within one method. After a
 * branch, or an instruction that it doesn't know, the stack is unknown; a comparison of unknown values gets no hook.
 */
public final class ClockComparisons extends MethodVisitor {
    private static final String HOOKS = "undermine/agent/sync/LimitHooks";
    private static final long MILLISECOND = 1_000_000;
    private static final Value UNKNOWN = new Value(Kind.UNKNOWN, 0, 0, 0);
    private static final Map<String, Long> UNITS = new HashMap<String, Long>();

    static {
        UNITS.put("toNanos", 1L);
        UNITS.put("toMicros", 1_000L);
        UNITS.put("toMillis", MILLISECOND);
        UNITS.put("toSeconds", 1_000_000_000L);
    }

    private enum Kind {
        UNKNOWN, CONSTANT, CLOCK, ELAPSED, DEADLINE, LEFT
    }

    /** A value on the stack or in a local variable. */
    private static final class Value {
        final Kind kind;
        /** Nanoseconds for each unit; the constant itself. */
        final long unit;
        /** The number of the first clock read. */
        final long start;
        /** The number of the sum that is the deadline. */
        final long sum;

        Value(Kind kind, long unit, long start, long sum) {
            this.kind = kind;
            this.unit = unit;
            this.start = start;
            this.sum = sum;
        }

        Value in(long other) {
            return new Value(kind, other, start, sum);
        }

        boolean isOfClock() {
            return kind != Kind.UNKNOWN && kind != Kind.CONSTANT;
        }
    }

    /** Numbers the call sites of a class. */
    interface Numbers {
        long nextSite();

        long lastSite();
    }

    private final Numbers numbers;
    private final boolean hasFrames;
    private final List<Value> stack = new ArrayList<Value>();
    private final Map<Integer, Value> locals = new HashMap<Integer, Value>();

    ClockComparisons(MethodVisitor next, Numbers numbers, boolean hasFrames) {
        super(Opcodes.ASM9, next);
        this.numbers = numbers;
        this.hasFrames = hasFrames;
    }

    // --- the stack

    private void push(Value value) {
        stack.add(value);
    }

    private Value pop() {
        return stack.isEmpty() ? UNKNOWN : stack.remove(stack.size() - 1);
    }

    private void pop(int count) {
        for (int i = 0; i < count; i++) {
            pop();
        }
    }

    private void replace(int popped, boolean isPushed) {
        pop(popped);
        if (isPushed) {
            push(UNKNOWN);
        }
    }

    // --- instructions

    @Override
    public void visitFrame(int type, int localCount, Object[] local, int stackCount, Object[] items) {
        stack.clear();
        super.visitFrame(type, localCount, local, stackCount, items);
    }

    @Override
    public void visitLabel(Label label) {
        if (!hasFrames) {
            stack.clear();
        }
        super.visitLabel(label);
    }

    @Override
    public void visitVarInsn(int opcode, int variable) {
        super.visitVarInsn(opcode, variable);
        if (opcode <= Opcodes.ALOAD) {
            Value known = locals.get(variable);
            push(known == null ? UNKNOWN : known);
        } else if (opcode <= Opcodes.ASTORE) {
            locals.put(variable, pop());
        } else {
            stack.clear();
        }
    }

    @Override
    public void visitIincInsn(int variable, int increment) {
        super.visitIincInsn(variable, increment);
        locals.remove(variable);
    }

    @Override
    public void visitLdcInsn(Object value) {
        super.visitLdcInsn(value);
        boolean isNumber = value instanceof Long || value instanceof Integer;
        push(isNumber ? constant(((Number) value).longValue()) : UNKNOWN);
    }

    @Override
    public void visitIntInsn(int opcode, int operand) {
        super.visitIntInsn(opcode, operand);
        if (opcode == Opcodes.NEWARRAY) {
            replace(1, true);
        } else {
            push(constant(operand));
        }
    }

    private static Value constant(long value) {
        return new Value(Kind.CONSTANT, value, 0, 0);
    }

    @Override
    public void visitTypeInsn(int opcode, String type) {
        super.visitTypeInsn(opcode, type);
        replace(opcode == Opcodes.NEW ? 0 : 1, true);
    }

    @Override
    public void visitFieldInsn(int opcode, String owner, String name, String descriptor) {
        super.visitFieldInsn(opcode, owner, name, descriptor);
        boolean isOfObject = opcode == Opcodes.GETFIELD || opcode == Opcodes.PUTFIELD;
        boolean isRead = opcode == Opcodes.GETFIELD || opcode == Opcodes.GETSTATIC;
        replace((isOfObject ? 1 : 0) + (isRead ? 0 : 1), isRead);
    }

    @Override
    public void visitMethodInsn(int opcode, String owner, String name, String descriptor, boolean isInterface) {
        super.visitMethodInsn(opcode, owner, name, descriptor, isInterface);
        int count = Type.getArgumentTypes(descriptor).length;
        Value last = count > 0 && !stack.isEmpty() ? stack.get(stack.size() - 1) : UNKNOWN;
        Value other = count > 1 && stack.size() > 1 ? stack.get(stack.size() - 2) : UNKNOWN;
        pop(count + (opcode == Opcodes.INVOKESTATIC ? 0 : 1));
        if (Type.getReturnType(descriptor) != Type.VOID_TYPE) {
            push(result(owner, name, descriptor, last, other));
        }
    }

    private Value result(String owner, String name, String descriptor, Value last, Value other) {
        if (owner.equals("java/lang/System") && descriptor.equals("()J")) {
            boolean isNanoseconds = name.equals("nanoTime");
            if (isNanoseconds || name.equals("currentTimeMillis")) {
                return new Value(Kind.CLOCK, isNanoseconds ? 1 : MILLISECOND, numbers.lastSite(), 0);
            }
        }
        if (owner.equals("java/util/concurrent/TimeUnit") && descriptor.equals("(J)J") && last.isOfClock()) {
            Long unit = UNITS.get(name);
            return unit == null ? UNKNOWN : last.in(unit);
        }
        if (owner.equals("java/lang/Math") && descriptor.equals("(JJ)J") && (name.equals("max") || name.equals("min"))) {
            return last.isOfClock() == other.isOfClock() ? UNKNOWN : last.isOfClock() ? last : other;
        }
        return UNKNOWN;
    }

    @Override
    public void visitInvokeDynamicInsn(String name, String descriptor, Handle bootstrap, Object... arguments) {
        super.visitInvokeDynamicInsn(name, descriptor, bootstrap, arguments);
        replace(Type.getArgumentTypes(descriptor).length, Type.getReturnType(descriptor) != Type.VOID_TYPE);
    }

    @Override
    public void visitMultiANewArrayInsn(String descriptor, int dimensions) {
        super.visitMultiANewArrayInsn(descriptor, dimensions);
        replace(dimensions, true);
    }

    @Override
    public void visitTableSwitchInsn(int min, int max, Label other, Label... labels) {
        super.visitTableSwitchInsn(min, max, other, labels);
        stack.clear();
    }

    @Override
    public void visitLookupSwitchInsn(Label other, int[] keys, Label[] labels) {
        super.visitLookupSwitchInsn(other, keys, labels);
        stack.clear();
    }

    @Override
    public void visitJumpInsn(int opcode, Label label) {
        if (opcode >= Opcodes.IF_ICMPEQ && opcode <= Opcodes.IF_ACMPNE) {
            Value right = pop();
            Value left = pop();
            if (opcode >= Opcodes.IF_ICMPLT && opcode <= Opcodes.IF_ICMPLE) {
                compareIntegers(left, right);
            }
        } else if (opcode == Opcodes.GOTO || opcode == Opcodes.JSR) {
            stack.clear();
        } else {
            pop();
        }
        super.visitJumpInsn(opcode, label);
    }

    @Override
    public void visitInsn(int opcode) {
        if (opcode == Opcodes.LCMP || opcode == Opcodes.LADD || opcode == Opcodes.LSUB || opcode == Opcodes.LMUL
                || opcode == Opcodes.LDIV) {
            Value right = pop();
            Value left = pop();
            push(combined(opcode, left, right));
            return;
        }
        super.visitInsn(opcode);
        if (opcode >= Opcodes.ICONST_M1 && opcode <= Opcodes.ICONST_5) {
            push(constant(opcode - Opcodes.ICONST_0));
        } else if (opcode == Opcodes.LCONST_0 || opcode == Opcodes.LCONST_1) {
            push(constant(opcode - Opcodes.LCONST_0));
        } else if (opcode == Opcodes.DUP) {
            Value top = pop();
            push(top);
            push(top);
        } else if (opcode == Opcodes.DUP2 && !stack.isEmpty() && stack.get(stack.size() - 1).isOfClock()) {
            push(stack.get(stack.size() - 1)); // the assigned value of `if ((spent = now - start) > limit)`
        } else if (opcode != Opcodes.I2L && opcode != Opcodes.L2I && opcode != Opcodes.NOP) {
            other(opcode);
        }
    }

    /** The effect of an instruction without operands on the stack; a long is one value. */
    private void other(int opcode) {
        if (opcode == Opcodes.ACONST_NULL || opcode >= Opcodes.FCONST_0 && opcode <= Opcodes.DCONST_1) {
            push(UNKNOWN);
        } else if (opcode >= Opcodes.IALOAD && opcode <= Opcodes.SALOAD) {
            replace(2, true);
        } else if (opcode >= Opcodes.IASTORE && opcode <= Opcodes.SASTORE) {
            pop(3);
        } else if (opcode >= Opcodes.INEG && opcode <= Opcodes.DNEG || opcode >= Opcodes.I2F && opcode <= Opcodes.I2S
                || opcode == Opcodes.ARRAYLENGTH) {
            replace(1, true);
        } else if (opcode >= Opcodes.IADD && opcode <= Opcodes.LXOR || opcode >= Opcodes.FCMPL && opcode <= Opcodes.DCMPG) {
            replace(2, true);
        } else if (opcode == Opcodes.POP || opcode == Opcodes.MONITORENTER || opcode == Opcodes.MONITOREXIT) {
            pop();
        } else {
            stack.clear(); // what is left depends on the size of values
        }
    }

    // --- arithmetic and comparisons of longs

    private Value combined(int opcode, Value left, Value right) {
        if (opcode == Opcodes.LADD && (left.kind == Kind.CLOCK) != (right.kind == Kind.CLOCK)
                && !(left.isOfClock() && right.isOfClock())) {
            return deadline(left, right);
        }
        if (opcode == Opcodes.LCMP) {
            compare(left, right);
            return UNKNOWN;
        }
        super.visitInsn(opcode);
        if (opcode == Opcodes.LSUB) {
            return difference(left, right);
        }
        boolean isScaled = (left.kind == Kind.CLOCK || left.kind == Kind.ELAPSED) && right.kind == Kind.CONSTANT && right.unit > 0;
        if (opcode == Opcodes.LADD || !isScaled) {
            return UNKNOWN;
        }
        return opcode == Opcodes.LDIV ? left.in(left.unit * right.unit)
                : left.unit % right.unit == 0 ? left.in(left.unit / right.unit) : UNKNOWN;
    }

    private static Value difference(Value left, Value right) {
        if (left.kind == Kind.CLOCK && right.kind == Kind.CLOCK && left.unit == right.unit) {
            return new Value(Kind.ELAPSED, left.unit, right.start, 0);
        }
        Value deadline = left.kind == Kind.DEADLINE ? left : right;
        Value now = left.kind == Kind.DEADLINE ? right : left;
        boolean isLeft = deadline.kind == Kind.DEADLINE && now.kind == Kind.CLOCK;
        return isLeft ? new Value(Kind.LEFT, deadline.unit, deadline.start, deadline.sum) : UNKNOWN;
    }

    /** Replace the sum of a clock reading and a limit by a call that remembers the limit. */
    private Value deadline(Value left, Value right) {
        Value clock = left.kind == Kind.CLOCK ? left : right;
        long sum = numbers.nextSite();
        super.visitLdcInsn(left == clock ? clock.unit : -clock.unit);
        SynchronizedMethod.push(mv, sum);
        super.visitMethodInsn(Opcodes.INVOKESTATIC, HOOKS, "deadline", "(JJJIII)J", false);
        return new Value(Kind.DEADLINE, clock.unit, clock.start, sum);
    }

    /** Replace the comparison by a call that records the limit. */
    private void compare(Value left, Value right) {
        Value spent = left.kind == Kind.ELAPSED ? left : right;
        if (spent.kind == Kind.ELAPSED && left.isOfClock() != right.isOfClock()) {
            super.visitLdcInsn(spent == left ? spent.unit : -spent.unit);
            SynchronizedMethod.push(mv, spent.start);
            SynchronizedMethod.push(mv, numbers.nextSite());
            super.visitMethodInsn(Opcodes.INVOKESTATIC, HOOKS, "compared", "(JJJIIIIII)I", false);
            return;
        }
        boolean isLeft = left.kind == Kind.LEFT && !right.isOfClock() || right.kind == Kind.LEFT && !left.isOfClock();
        boolean isDeadline = left.kind == Kind.DEADLINE && right.kind == Kind.CLOCK
                || right.kind == Kind.DEADLINE && left.kind == Kind.CLOCK;
        if (isLeft || isDeadline) {
            Value deadline = left.sum != 0 ? left : right;
            SynchronizedMethod.push(mv, deadline.start);
            SynchronizedMethod.push(mv, deadline.sum);
            super.visitMethodInsn(Opcodes.INVOKESTATIC, HOOKS, "reached", "(JJIIIIII)I", false);
            return;
        }
        super.visitInsn(Opcodes.LCMP);
    }

    private void compareIntegers(Value left, Value right) {
        Value spent = left.kind == Kind.ELAPSED ? left : right;
        if (spent.kind == Kind.ELAPSED && left.isOfClock() != right.isOfClock()) {
            super.visitInsn(Opcodes.DUP2);
            super.visitLdcInsn(spent == left ? spent.unit : -spent.unit);
            SynchronizedMethod.push(mv, spent.start);
            SynchronizedMethod.push(mv, numbers.nextSite());
            super.visitMethodInsn(Opcodes.INVOKESTATIC, HOOKS, "compared", "(IIJIIIIII)V", false);
        }
    }
}
