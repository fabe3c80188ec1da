package undermine.agent.weave;

import java.util.ArrayList;
import java.util.List;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/**
 * Weaves one method: a hook at its entry, before each return, and for each exception that leaves it.
 *
 * It adds no member and no variable, so classes that are loaded already can be woven. The hooks at the end are outside
 * the guarded ranges, so their exceptions leave the method.
 */
class Advice extends MethodVisitor {
    static final String HOOKS = "undermine/agent/hooks/Hooks";
    private static final String OBJECT = "Ljava/lang/Object;";

    final String owner;
    final boolean isStatic;
    final Type[] parameters;
    final Type returned;
    private final WovenMethod point;
    private final List<Label> ranges = new ArrayList<Label>();
    private final Label entering = new Label();
    private final Label entered = new Label();
    private Label start = new Label();

    Advice(MethodVisitor next, String owner, boolean isStatic, String descriptor, WovenMethod point) {
        super(Opcodes.ASM9, next);
        this.owner = owner;
        this.isStatic = isStatic;
        this.parameters = Type.getArgumentTypes(descriptor);
        this.returned = Type.getReturnType(descriptor);
        this.point = point;
    }

    @Override
    public void visitCode() {
        super.visitCode();
        if (hasNoEnd()) {
            call(point.entry, "V");
            return;
        }
        super.visitMethodInsn(Opcodes.INVOKESTATIC, HOOKS, changesData() ? "enterWithData" : "enter", "()V", false);
        super.visitLabel(entering);
        enter();
        super.visitLabel(entered);
        Label goOn = new Label();
        super.visitJumpInsn(Opcodes.IFEQ, goOn);
        if (changesData()) {
            changeData(goOn);
        }
        answerNothing();
        super.visitLabel(goOn);
        super.visitFrame(Opcodes.F_SAME, 0, null, 0, null);
        super.visitInsn(Opcodes.NOP); // the method's own code may begin with a frame
        super.visitLabel(start);
    }

    /** Call the hook at the entry. It leaves true on the stack if the method has to answer at once. */
    void enter() {
        call(point.entry, "Z");
    }

    private boolean hasNoEnd() {
        return point != null && point.entry.hasNoEnd;
    }

    /** Can the method get other data than it was called with? */
    boolean changesData() {
        return point.entry.changesData;
    }

    /** If the hook wants the method's arguments, let it replace them, and continue with the method. */
    private void changeData(Label goOn) {
        Label answer = new Label();
        super.visitMethodInsn(Opcodes.INVOKESTATIC, HOOKS, "wantsData", "()Z", false);
        super.visitJumpInsn(Opcodes.IFEQ, answer);
        Arguments arguments = new Arguments(mv, parameters, isStatic);
        arguments.push();
        super.visitMethodInsn(
                Opcodes.INVOKESTATIC, HOOKS, "changed", "([Ljava/lang/Object;)[Ljava/lang/Object;", false);
        arguments.store();
        super.visitJumpInsn(Opcodes.GOTO, goOn);
        super.visitLabel(answer);
        super.visitFrame(Opcodes.F_SAME, 0, null, 0, null);
    }

    /** Return nothing, or the number that the hook has left. */
    void answerNothing() {
        switch (returned.getSort()) {
            case Type.VOID:
                break;
            case Type.LONG:
            case Type.INT:
                super.visitMethodInsn(Opcodes.INVOKESTATIC, HOOKS, "answer", "()J", false);
                if (returned.getSort() == Type.INT) {
                    super.visitInsn(Opcodes.L2I);
                }
                break;
            case Type.OBJECT:
            case Type.ARRAY:
                super.visitInsn(Opcodes.ACONST_NULL);
                break;
            case Type.FLOAT:
                super.visitInsn(Opcodes.FCONST_0);
                break;
            case Type.DOUBLE:
                super.visitInsn(Opcodes.DCONST_0);
                break;
            default:
                super.visitInsn(Opcodes.ICONST_0);
                break;
        }
        super.visitInsn(returned.getOpcode(Opcodes.IRETURN));
    }

    @Override
    public void visitInsn(int opcode) {
        boolean isReturn = opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN;
        if (!isReturn || hasNoEnd()) {
            super.visitInsn(opcode);
            return;
        }
        Label stop = new Label();
        super.visitLabel(stop);
        ranges.add(start);
        ranges.add(stop);
        if (point != null && point.end != null) {
            call(point.end, "V");
        }
        callLeft();
        super.visitInsn(opcode);
        start = new Label();
        super.visitLabel(start);
    }

    private void callLeft() {
        String type;
        switch (returned.getSort()) {
            case Type.VOID:
                super.visitMethodInsn(Opcodes.INVOKESTATIC, HOOKS, "left", "()V", false);
                return;
            case Type.OBJECT:
            case Type.ARRAY:
                super.visitMethodInsn(Opcodes.INVOKESTATIC, HOOKS, "left", "(" + OBJECT + ")" + OBJECT, false);
                super.visitTypeInsn(Opcodes.CHECKCAST, returned.getInternalName());
                return;
            case Type.LONG:
            case Type.FLOAT:
            case Type.DOUBLE:
            case Type.BOOLEAN:
                type = returned.getDescriptor();
                break;
            default:
                type = "I";
                break;
        }
        super.visitMethodInsn(Opcodes.INVOKESTATIC, HOOKS, "left", "(" + type + ")" + type, false);
    }

    @Override
    public void visitMaxs(int maxStack, int maxLocals) {
        if (!hasNoEnd()) {
            handler();
        }
        super.visitMaxs(maxStack, maxLocals);
    }

    /** Must be last in the table of handlers, so that the method's own handlers come first. */
    private void handler() {
        Label stop = new Label();
        super.visitLabel(stop);
        ranges.add(start);
        ranges.add(stop);
        for (int i = 0; i < ranges.size(); i += 2) {
            if (ranges.get(i).getOffset() < ranges.get(i + 1).getOffset()) {
                super.visitTryCatchBlock(ranges.get(i), ranges.get(i + 1), stop, null);
            }
        }
        raise("failed");
        Label refused = new Label();
        super.visitLabel(refused);
        super.visitTryCatchBlock(entering, entered, refused, null);
        raise("abandoned");
    }

    /** Raise the exception again after this hook was called. */
    private void raise(String hook) {
        super.visitFrame(Opcodes.F_FULL, 0, null, 1, new Object[] {"java/lang/Throwable"});
        super.visitMethodInsn(Opcodes.INVOKESTATIC, HOOKS, hook, "(Ljava/lang/Throwable;)Ljava/lang/Throwable;", false);
        super.visitInsn(Opcodes.ATHROW);
    }

    private void call(WovenMethod.Hook entry, String returns) {
        StringBuilder descriptor = new StringBuilder("(");
        for (WovenMethod.Argument value : entry.values) {
            descriptor.append(load(value));
        }
        descriptor.append(")").append(returns);
        super.visitMethodInsn(Opcodes.INVOKESTATIC, entry.owner, entry.name, descriptor.toString(), false);
    }

    /** Push a value for the hook; returns its type for the hook's descriptor. */
    private String load(WovenMethod.Argument value) {
        Type type = value.parameter < 0 ? Type.getObjectType(owner) : parameters[value.parameter];
        super.visitVarInsn(type.getOpcode(Opcodes.ILOAD), Arguments.slot(parameters, isStatic, value.parameter));
        if (value.field != null) {
            super.visitFieldInsn(Opcodes.GETFIELD, value.owner == null ? owner : value.owner, value.field, value.type);
            type = Type.getType(value.type);
        }
        return type.getSort() >= Type.ARRAY ? OBJECT : type.getDescriptor();
    }
}
