package undermine.agent.weave;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/** The names of parameters, as far as the class file has them. */
public final class ParameterNames {
    private ParameterNames() {
    }

    /** The names for each method that has code, by its name and descriptor. */
    static Map<String, List<String>> of(ClassReader reader) {
        final Map<String, List<String>> found = new HashMap<String, List<String>>();
        reader.accept(new ClassVisitor(Opcodes.ASM9) {
            @Override
            public MethodVisitor visitMethod(
                    int access, String name, String descriptor, String signature, String[] thrown) {
                boolean isNone = Weaver.hasNoCode(access) || name.startsWith("<") || (access & Opcodes.ACC_BRIDGE) != 0;
                if (isNone) {
                    return null;
                }
                List<String> names = new ArrayList<String>();
                found.put(name + descriptor, names);
                return new Reader(names, (access & Opcodes.ACC_STATIC) != 0, Type.getArgumentTypes(descriptor));
            }
        }, ClassReader.SKIP_FRAMES);
        return found;
    }

    /** The types of a descriptor as `(String,int)`. */
    public static String simple(String descriptor) {
        StringBuilder text = new StringBuilder("(");
        for (Type type : Type.getArgumentTypes(descriptor)) {
            String name = type.getClassName();
            text.append(text.length() > 1 ? "," : "");
            text.append(name, Math.max(name.lastIndexOf('.'), name.lastIndexOf('$')) + 1, name.length());
        }
        return text.append(")").toString();
    }

    private static final class Reader extends MethodVisitor {
        private final List<String> names;
        private final boolean isStatic;
        private final Type[] types;

        Reader(List<String> names, boolean isStatic, Type[] types) {
            super(Opcodes.ASM9);
            this.names = names;
            this.isStatic = isStatic;
            this.types = types;
            for (int i = 0; i < types.length; i++) {
                names.add("");
            }
        }

        @Override
        public void visitLocalVariable(
                String name, String descriptor, String signature, Label start, Label end, int index) {
            int slot = isStatic ? 0 : 1;
            for (int i = 0; i < types.length; i++) {
                if (slot == index && names.get(i).isEmpty()) {
                    names.set(i, name);
                }
                slot += types[i].getSize();
            }
        }
    }
}
