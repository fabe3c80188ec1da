package undermine.agent.weave;

import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/** Writes the code that packs all arguments of a method into an array of objects, and that unpacks them again. */
final class Arguments {
    /** By the sort of a type: its wrapper and the method that returns its value. */
    private static final String[] WRAPPERS = new String[Type.DOUBLE + 1];

    static {
        WRAPPERS[Type.BOOLEAN] = "Boolean boolean";
        WRAPPERS[Type.CHAR] = "Character char";
        WRAPPERS[Type.BYTE] = "Byte byte";
        WRAPPERS[Type.SHORT] = "Short short";
        WRAPPERS[Type.INT] = "Integer int";
        WRAPPERS[Type.LONG] = "Long long";
        WRAPPERS[Type.FLOAT] = "Float float";
        WRAPPERS[Type.DOUBLE] = "Double double";
    }

    private final MethodVisitor to;
    private final Type[] parameters;
    private final boolean isStatic;

    Arguments(MethodVisitor to, Type[] parameters, boolean isStatic) {
        this.to = to;
        this.parameters = parameters;
        this.isStatic = isStatic;
    }

    /** Push an array of all arguments. */
    void push() {
        push(parameters.length);
        to.visitTypeInsn(Opcodes.ANEWARRAY, "java/lang/Object");
        for (int i = 0; i < parameters.length; i++) {
            to.visitInsn(Opcodes.DUP);
            push(i);
            to.visitVarInsn(parameters[i].getOpcode(Opcodes.ILOAD), slot(parameters, isStatic, i));
            box(parameters[i]);
            to.visitInsn(Opcodes.AASTORE);
        }
    }

    /** Pop such an array, and let the method have these arguments. */
    void store() {
        for (int i = 0; i < parameters.length; i++) {
            to.visitInsn(Opcodes.DUP);
            push(i);
            to.visitInsn(Opcodes.AALOAD);
            unbox(parameters[i]);
            to.visitVarInsn(parameters[i].getOpcode(Opcodes.ISTORE), slot(parameters, isStatic, i));
        }
        to.visitInsn(Opcodes.POP);
    }

    /** Push a number. */
    void push(int value) {
        to.visitIntInsn(Opcodes.SIPUSH, value);
    }

    private void box(Type type) {
        if (type.getSort() <= Type.DOUBLE) {
            String wrapper = wrapper(type);
            to.visitMethodInsn(
                    Opcodes.INVOKESTATIC, wrapper, "valueOf", "(" + type.getDescriptor() + ")L" + wrapper + ";", false);
        }
    }

    private void unbox(Type type) {
        if (type.getSort() > Type.DOUBLE) {
            to.visitTypeInsn(Opcodes.CHECKCAST, type.getInternalName());
            return;
        }
        String wrapper = wrapper(type);
        String primitive = WRAPPERS[type.getSort()].substring(WRAPPERS[type.getSort()].indexOf(' ') + 1);
        to.visitTypeInsn(Opcodes.CHECKCAST, wrapper);
        to.visitMethodInsn(Opcodes.INVOKEVIRTUAL, wrapper, primitive + "Value", "()" + type.getDescriptor(), false);
    }

    private static String wrapper(Type type) {
        String names = WRAPPERS[type.getSort()];
        return "java/lang/" + names.substring(0, names.indexOf(' '));
    }

    /** The variable that holds a parameter; -1 is `this`. */
    static int slot(Type[] parameters, boolean isStatic, int parameter) {
        int slot = isStatic ? 0 : 1;
        if (parameter < 0) {
            return 0;
        }
        for (int i = 0; i < parameter; i++) {
            slot += parameters[i].getSize();
        }
        return slot;
    }
}
