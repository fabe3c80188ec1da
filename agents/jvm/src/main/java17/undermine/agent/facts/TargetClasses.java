package undermine.agent.facts;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.FieldInsnNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import undermine.agent.stacks.CallCounter;
import undermine.agent.stacks.Locs;
import undermine.agent.values.AbstractValue;
import undermine.agent.values.Sum;
import undermine.agent.values.ValueInterpreter;

/** All methods of the target's own classes, with the values that they use. */
final class TargetClasses implements ValueInterpreter.Program {
    private static final int ROUNDS = 3;
    private static final int SMALL = 60;

    /** A value that is stored in a field. */
    record Store(MethodCode method, int at, AbstractValue value) {
    }

    final ClassPath path;
    final Hierarchy hierarchy;
    final List<MethodCode> methods = new ArrayList<>();
    /** By class, then by name and descriptor. */
    private final Map<String, Map<String, MethodCode>> byClass = new HashMap<>();
    /** By method: the sums that it returns, in terms of clocks, fields and constants. */
    private final Map<MethodCode, Set<Sum>> returned = new HashMap<>();
    private final Map<MethodCode, String> getters = new HashMap<>();
    /** By field. */
    final Map<String, List<Store>> stores = new HashMap<>();
    int classes;

    TargetClasses(ClassPath path, OwnPackages packages) {
        this.path = path;
        hierarchy = new Hierarchy(path);
        for (String name : path.names()) {
            if (packages.has(name.replace('/', '.'))) {
                read(name);
            }
        }
        hierarchy.complete();
        analyse();
    }

    private void read(String name) {
        byte[] bytes = path.bytes(name);
        if (bytes == null) {
            return;
        }
        try {
            ClassNode type = new ClassNode();
            new ClassReader(bytes).accept(type, ClassReader.SKIP_FRAMES);
            CallCounter counter = new CallCounter(bytes);
            List<MethodCode> found = new ArrayList<>();
            for (MethodNode method : type.methods) {
                if (method.instructions.size() > 0) {
                    String id = Locs.of(type.name.replace('/', '.'), method.name, method.desc, counter);
                    found.add(new MethodCode(type.name, method, id, file(type)));
                }
            }
            hierarchy.add(type);
            classes++;
            for (MethodCode method : found) {
                methods.add(method);
                byClass.computeIfAbsent(type.name, key -> new HashMap<>()).put(method.node.name + method.node.desc, method);
            }
        } catch (RuntimeException | StackOverflowError broken) {
            path.troubles.put(name, ClassPath.reason(broken));
        }
    }

    private static String file(ClassNode type) {
        String folder = type.name.substring(0, type.name.lastIndexOf('/') + 1);
        return folder + (type.sourceFile == null ? type.name.substring(folder.length()) : type.sourceFile);
    }

    /** Small methods that return a clock reading or a field come first, since others use them. */
    private void analyse() {
        for (int round = 0; round < ROUNDS; round++) {
            for (MethodCode method : methods) {
                if (isGetter(method)) {
                    method.analyse(this);
                    returned.put(method, known(method.returned()));
                }
            }
        }
        for (MethodCode method : methods) {
            method.analyse(this);
            if (!method.trouble.isEmpty()) {
                path.troubles.put(method.id, method.trouble);
            }
            findStores(method);
        }
    }

    private static boolean isGetter(MethodCode method) {
        return (method.node.desc.equals("()J") || method.node.desc.equals("()I")) && method.flow.size() <= SMALL;
    }

    private static Set<Sum> known(Set<Sum> sums) {
        for (Sum sum : sums) {
            for (Sum.Term term : sum.terms().keySet()) {
                if (term.kind() == Sum.Kind.OTHER) {
                    return Set.of();
                }
            }
        }
        return sums;
    }

    private void findStores(MethodCode method) {
        method.operands.forEach((at, values) -> {
            if (method.node.instructions.get(at) instanceof FieldInsnNode field && !values.isEmpty()) {
                stores.computeIfAbsent(field(field.owner, field.name), key -> new ArrayList<>())
                        .add(new Store(method, at, values.get(values.size() - 1)));
            }
        });
    }

    @Override
    public String field(String owner, String name) {
        return hierarchy.field(owner, name);
    }

    @Override
    public Set<Sum> returned(MethodInsnNode call) {
        if (!call.desc.startsWith("()")) {
            return Set.of();
        }
        MethodCode found = resolved(call.owner, call.name, call.desc);
        return found == null ? Set.of() : returned.getOrDefault(found, Set.of());
    }

    @Override
    public String behind(MethodInsnNode call) {
        MethodCode found = resolved(call.owner, call.name, call.desc);
        return found == null ? "" : getters.computeIfAbsent(found, this::returnedField);
    }

    private String returnedField(MethodCode method) {
        String found = "";
        for (AbstractInsnNode each : method.node.instructions) {
            int opcode = each.getOpcode();
            if (each instanceof FieldInsnNode field && found.isEmpty()
                    && (opcode == Opcodes.GETFIELD || opcode == Opcodes.GETSTATIC)) {
                found = field(field.owner, field.name);
            } else if (opcode >= 0 && opcode != Opcodes.ALOAD && !(opcode >= Opcodes.IRETURN && opcode <= Opcodes.ARETURN)) {
                return "";
            }
        }
        return found;
    }

    /** The method of the target that a call of this class means; null if it is not the target's, or abstract. */
    MethodCode resolved(String owner, String name, String descriptor) {
        for (String each : hierarchy.above(owner)) {
            MethodCode found = declared(each, name, descriptor);
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    /** The method that this class itself declares, or null. A bridge counts as the method that it calls. */
    MethodCode declared(String owner, String name, String descriptor) {
        MethodCode found = byClass.getOrDefault(owner, Map.of()).get(name + descriptor);
        return found == null || !found.is(Opcodes.ACC_BRIDGE) ? found : behind(found);
    }

    private MethodCode behind(MethodCode bridge) {
        for (MethodCode.Call call : bridge.calls) {
            if (call.node() != null && call.node().name.equals(bridge.node.name)) {
                MethodCode found = byClass.getOrDefault(bridge.owner, Map.of()).get(call.node().name + call.node().desc);
                if (found != null) {
                    return found;
                }
            }
        }
        return bridge;
    }
}
