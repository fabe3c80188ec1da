package undermine.agent.weave;

import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/** Weaves a method that the user named: its hook receives all arguments of the method. */
final class LogicalAdvice extends Advice {
    private static final String COMPLETED = "java/util/concurrent/CompletableFuture";

    private final int number;

    LogicalAdvice(MethodVisitor next, String owner, boolean isStatic, String descriptor, int number) {
        super(next, owner, isStatic, descriptor, null);
        this.number = number;
    }

    @Override
    boolean changesData() {
        return true;
    }

    /** The hook gets the object, or the class if the method is static. */
    @Override
    void enter() {
        Arguments arguments = new Arguments(mv, parameters, isStatic);
        arguments.push(number);
        if (isStatic) {
            mv.visitLdcInsn(Type.getObjectType(owner));
        } else {
            mv.visitVarInsn(Opcodes.ALOAD, 0);
        }
        arguments.push();
        mv.visitMethodInsn(Opcodes.INVOKESTATIC, "undermine/agent/hooks/LogicalOperations", "enter",
                "(ILjava/lang/Object;[Ljava/lang/Object;)Z", false);
    }

    /** A message that got lost seems to be sent: true, or a future that is done. */
    @Override
    void answerNothing() {
        if (returned.getSort() == Type.BOOLEAN) {
            mv.visitInsn(Opcodes.ICONST_1);
        } else if (isFuture()) {
            mv.visitInsn(Opcodes.ACONST_NULL);
            mv.visitMethodInsn(
                    Opcodes.INVOKESTATIC, COMPLETED, "completedFuture", "(Ljava/lang/Object;)L" + COMPLETED + ";", false);
        } else {
            super.answerNothing();
            return;
        }
        mv.visitInsn(returned.getOpcode(Opcodes.IRETURN));
    }

    private boolean isFuture() {
        String type = returned.getSort() == Type.OBJECT ? returned.getInternalName() : "";
        return type.equals(COMPLETED) || type.equals("java/util/concurrent/CompletionStage")
                || type.equals("java/util/concurrent/Future");
    }
}
