package undermine.agent.weave;

import java.io.FileDescriptor;
import java.io.RandomAccessFile;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import undermine.agent.classfiles.ConstantPool;
import undermine.agent.lib.Utf8;

/**
 * Redirects calls of native methods to NativeFileCalls, for older JDKs: a native method has no code to weave.
 *
 * The new call has the same length, so the indexes of other instructions don't change.
 */
final class NativeCalls {
    private static final String INSTEAD = "undermine/agent/instead/NativeFileCalls";
    private final List<byte[]> needles = new ArrayList<byte[]>();
    private final boolean isSyncNative = isNative(FileDescriptor.class, "sync");
    private final boolean isSetLengthNative = isNative(RandomAccessFile.class, "setLength", long.class);

    NativeCalls() {
        if (isSyncNative) {
            needles.add(Utf8.bytes("java/io/FileDescriptor"));
        }
        if (isSetLengthNative) {
            needles.add(Utf8.bytes("setLength"));
        }
    }

    private static boolean isNative(Class<?> type, String name, Class<?>... parameters) {
        try {
            Method method = type.getMethod(name, parameters);
            return Modifier.isNative(method.getModifiers());
        } catch (ReflectiveOperationException none) {
            return false;
        }
    }

    /** False if this class file calls none of them. Fast, since every class is asked. */
    boolean mayBeIn(byte[] bytes) {
        if (needles.isEmpty()) {
            return false;
        }
        ConstantPool constants = new ConstantPool(bytes);
        for (byte[] needle : needles) {
            if (constants.has(needle)) {
                return true;
            }
        }
        return false;
    }

    /** The woven class; null if nothing is changed. */
    byte[] woven(byte[] bytes) {
        final boolean[] isChanged = {false};
        ClassReader reader = new ClassReader(bytes);
        ClassWriter writer = new ClassWriter(reader, 0);
        reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] thrown) {
                MethodVisitor next = super.visitMethod(access, name, descriptor, signature, thrown);
                return new Replacing(next, isChanged);
            }
        }, 0);
        return isChanged[0] ? writer.toByteArray() : null;
    }

    private final class Replacing extends MethodVisitor {
        private final boolean[] isChanged;

        Replacing(MethodVisitor next, boolean[] isChanged) {
            super(Opcodes.ASM9, next);
            this.isChanged = isChanged;
        }

        @Override
        public void visitMethodInsn(int opcode, String owner, String name, String descriptor, boolean isInterface) {
            boolean isSync = isSyncNative && owner.equals("java/io/FileDescriptor") && name.equals("sync");
            boolean isSetLength = isSetLengthNative && owner.equals("java/io/RandomAccessFile") && name.equals("setLength");
            if (opcode != Opcodes.INVOKEVIRTUAL || !isSync && !isSetLength) {
                super.visitMethodInsn(opcode, owner, name, descriptor, isInterface);
                return;
            }
            isChanged[0] = true;
            String whole = "(L" + owner + ";" + descriptor.substring(1);
            super.visitMethodInsn(Opcodes.INVOKESTATIC, INSTEAD, name, whole, false);
        }
    }
}
