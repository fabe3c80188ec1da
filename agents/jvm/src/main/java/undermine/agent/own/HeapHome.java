package undermine.agent.own;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.FieldVisitor;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import undermine.agent.lib.Checksum;
import undermine.agent.stacks.CallCounter;
import undermine.agent.stacks.Locs;

/** A class whose heap accesses are woven: its final fields, its methods' local variables, and the names of its call sites. */
final class HeapHome {
    final String owner;
    final String superName;
    /** True once a hook has been woven. */
    boolean isChanged;
    private final CallCounter calls;
    /** Fields that never change after construction: final ones, and private ones that only constructors assign. */
    private final Set<String> finals = new HashSet<String>();
    private boolean hasNest;
    private final Map<String, Integer> locals = new HashMap<String, Integer>();
    private final int sum;
    private int places;

    HeapHome(ClassReader reader, byte[] bytes) {
        owner = reader.getClassName();
        superName = reader.getSuperName();
        calls = new CallCounter(bytes);
        sum = (int) Checksum.of(bytes);
        final Set<String> own = new HashSet<String>();
        final Set<String> assigned = new HashSet<String>();
        reader.accept(new ClassVisitor(Opcodes.ASM9) {
            @Override
            public FieldVisitor visitField(int access, String name, String descriptor, String signature, Object value) {
                boolean isOwn = (access & Opcodes.ACC_PRIVATE) != 0 && (access & (Opcodes.ACC_VOLATILE | Opcodes.ACC_STATIC)) == 0;
                if ((access & Opcodes.ACC_FINAL) != 0) {
                    finals.add(name);
                } else if (isOwn) {
                    own.add(name);
                }
                return null;
            }

            @Override
            public void visitNestHost(String host) {
                hasNest = true;
            }

            @Override
            public void visitNestMember(String member) {
                hasNest = true;
            }

            @Override
            public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] thrown) {
                final String key = name + descriptor;
                final boolean isConstructor = name.equals("<init>");
                return new MethodVisitor(Opcodes.ASM9) {
                    @Override
                    public void visitMaxs(int maxStack, int maxLocals) {
                        locals.put(key, maxLocals);
                    }

                    @Override
                    public void visitFieldInsn(int opcode, String of, String field, String type) {
                        if (opcode == Opcodes.PUTFIELD && !isConstructor && of.equals(owner)) {
                            assigned.add(field);
                        }
                    }
                };
            }
        }, ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES);
        own.removeAll(assigned);
        if (!hasNest) { // members of a nest may assign private fields of each other
            finals.addAll(own);
        }
    }

    MethodVisitor woven(MethodVisitor next, String method, String descriptor) {
        Integer free = locals.get(method + descriptor);
        return free == null ? next : new HeapAccesses(next, this, method, descriptor, free);
    }

    /** True for a final field of this class. */
    boolean isFinal(String of, String field) {
        return of.equals(owner) && finals.contains(field);
    }

    /** The number of the next place in the code. Two places have the same one only by chance. */
    int nextPlace() {
        return sum + ++places * 0x9E3779B1;
    }

    /** The name of a call site, without the package. */
    String site(String method, String descriptor, int ordinal) {
        String name = Locs.of(owner.replace('/', '.'), method, descriptor, calls);
        return name.substring(name.indexOf(':') + 1) + "#" + ordinal;
    }
}
