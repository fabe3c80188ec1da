package undermine.agent.weave;

import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/** Weaves a method that the user named: its hook receives all arguments of the method. */
final class LogicalAdvice extends Advice {
    private final int number;

    LogicalAdvice(MethodVisitor next, String owner, boolean isStatic, String descriptor, int number) {
        super(next, owner, isStatic, descriptor, null);
        this.number = number;
    }

    @Override
    void enter() {
        push(number);
        if (isStatic) {
            mv.visitInsn(Opcodes.ACONST_NULL);
        } else {
            mv.visitVarInsn(Opcodes.ALOAD, 0);
        }
        push(parameters.length);
        mv.visitTypeInsn(Opcodes.ANEWARRAY, "java/lang/Object");
        for (int i = 0; i < parameters.length; i++) {
            mv.visitInsn(Opcodes.DUP);
            push(i);
            mv.visitVarInsn(parameters[i].getOpcode(Opcodes.ILOAD), slot(i));
            box(parameters[i]);
            mv.visitInsn(Opcodes.AASTORE);
        }
        mv.visitMethodInsn(Opcodes.INVOKESTATIC, "undermine/agent/hooks/LogicalOperations", "enter",
                "(ILjava/lang/Object;[Ljava/lang/Object;)Z", false);
    }

    private void push(int value) {
        mv.visitIntInsn(Opcodes.SIPUSH, value);
    }

    private void box(Type type) {
        String box;
        switch (type.getSort()) {
            case Type.BOOLEAN:
                box = "java/lang/Boolean";
                break;
            case Type.CHAR:
                box = "java/lang/Character";
                break;
            case Type.BYTE:
                box = "java/lang/Byte";
                break;
            case Type.SHORT:
                box = "java/lang/Short";
                break;
            case Type.INT:
                box = "java/lang/Integer";
                break;
            case Type.LONG:
                box = "java/lang/Long";
                break;
            case Type.FLOAT:
                box = "java/lang/Float";
                break;
            case Type.DOUBLE:
                box = "java/lang/Double";
                break;
            default:
                return;
        }
        mv.visitMethodInsn(Opcodes.INVOKESTATIC, box, "valueOf", "(" + type.getDescriptor() + ")L" + box + ";", false);
    }
}
