package undermine.agent.heap;

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.FieldVisitor;
import org.objectweb.asm.Opcodes;
import undermine.agent.classfiles.ClassBytes;

/**
 * Tells which fields never change. It reads class files: reflection would load the classes of the fields.
 */
final class FinalFields {
    private final ClassValue<Map<String, Boolean>> byClass = new ClassValue<Map<String, Boolean>>() {
        @Override
        protected Map<String, Boolean> computeValue(Class<?> type) {
            return read(ClassBytes.of(type));
        }
    };

    /** True if the instance field of this name, in the class or the nearest one above it that has one, is final. */
    boolean has(Class<?> type, String name) {
        for (Class<?> each = type; each != null && each.getClassLoader() != null; each = each.getSuperclass()) {
            Boolean isFinal = byClass.get(each).get(name);
            if (isFinal != null) {
                return isFinal;
            }
        }
        return false;
    }

    /** The instance fields of a class, and whether they are final. */
    private static Map<String, Boolean> read(byte[] bytes) {
        if (bytes == null) {
            return Collections.emptyMap();
        }
        final Map<String, Boolean> found = new HashMap<String, Boolean>();
        new ClassReader(bytes).accept(new ClassVisitor(Opcodes.ASM9) {
            @Override
            public FieldVisitor visitField(int access, String name, String descriptor, String signature, Object value) {
                if ((access & Opcodes.ACC_STATIC) == 0) {
                    found.put(name, (access & Opcodes.ACC_FINAL) != 0);
                }
                return null;
            }
        }, ClassReader.SKIP_CODE | ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES);
        return found;
    }
}
