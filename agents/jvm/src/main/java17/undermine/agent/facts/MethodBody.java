package undermine.agent.facts;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.FieldInsnNode;
import org.objectweb.asm.tree.IincInsnNode;
import org.objectweb.asm.tree.InvokeDynamicInsnNode;
import org.objectweb.asm.tree.JumpInsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.LookupSwitchInsnNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MultiANewArrayInsnNode;
import org.objectweb.asm.tree.TableSwitchInsnNode;
import org.objectweb.asm.tree.TryCatchBlockNode;
import org.objectweb.asm.tree.TypeInsnNode;
import org.objectweb.asm.tree.VarInsnNode;
import org.objectweb.asm.tree.analysis.Analyzer;
import org.objectweb.asm.tree.analysis.AnalyzerException;
import undermine.agent.values.ValueSources;

/**
 * The instructions of a method that matter for dependence: calls, accesses to fields and arrays, assignments, tests and ends. Each
 * has those that may follow it, and for each operand those that its value may come from. It decides nothing: questions are
 * answered from it elsewhere.
 */
final class MethodBody {
    /** A method with more of these cells isn't followed. */
    private static final long CELLS_MAX = 4_000_000;
    /** The number of an end that an exception leads to. */
    private static final int LEAVES = -1;

    private final MethodCode method;
    private final Hierarchy hierarchy;
    private final String[] kinds;
    private final Map<Integer, Integer> numbers = new HashMap<>();
    private final Map<Integer, Integer> ordinals = new HashMap<>();
    private final ValueSources sources;

    private MethodBody(MethodCode method, Hierarchy hierarchy) throws AnalyzerException {
        this.method = method;
        this.hierarchy = hierarchy;
        kinds = new String[method.flow.size()];
        method.calls.forEach(call -> ordinals.put(call.at(), call.ordinal()));
        findKinds();
        sources = new ValueSources(each -> kinds[method.node.instructions.indexOf(each)] != null);
        new Analyzer<>(sources).analyze(method.owner, method.node);
    }

    /** The body as JSON values; null if the method is too large or can't be analysed. */
    static Map<String, Object> of(MethodCode method, Hierarchy hierarchy) {
        if ((long) method.flow.size() * (method.node.maxLocals + method.node.maxStack + 1) > CELLS_MAX) {
            return null;
        }
        try {
            return new MethodBody(method, hierarchy).json();
        } catch (AnalyzerException | RuntimeException broken) {
            return null;
        }
    }

    // --- which instructions matter

    private void findKinds() {
        for (TryCatchBlockNode each : method.node.tryCatchBlocks) {
            kinds[index(each.handler)] = "catch";
        }
        for (int at = 0; at < kinds.length; at++) {
            if (kinds[at] == null) {
                kinds[at] = kind(method.node.instructions.get(at), at);
            }
            if (kinds[at] != null) {
                numbers.put(at, numbers.size());
            }
        }
    }

    private int index(AbstractInsnNode node) {
        return method.node.instructions.indexOf(node);
    }

    private String kind(AbstractInsnNode node, int at) {
        int opcode = node.getOpcode();
        if (node instanceof MethodInsnNode || node instanceof InvokeDynamicInsnNode) {
            return "call";
        }
        if (node instanceof FieldInsnNode) {
            return opcode == Opcodes.GETFIELD || opcode == Opcodes.GETSTATIC ? "get" : "put";
        }
        if (node instanceof TableSwitchInsnNode || node instanceof LookupSwitchInsnNode
                || node instanceof JumpInsnNode && opcode != Opcodes.GOTO) {
            return "test";
        }
        if (node instanceof IincInsnNode) {
            return "step";
        }
        if (node instanceof MultiANewArrayInsnNode || opcode == Opcodes.NEW || opcode == Opcodes.NEWARRAY
                || opcode == Opcodes.ANEWARRAY) {
            return "new";
        }
        if (opcode >= Opcodes.IALOAD && opcode <= Opcodes.SALOAD) {
            return "load";
        }
        if (opcode >= Opcodes.IASTORE && opcode <= Opcodes.SASTORE) {
            return "store";
        }
        if (opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN) {
            return "return";
        }
        if (opcode == Opcodes.ATHROW) {
            return "throw";
        }
        if (opcode == Opcodes.MONITORENTER) {
            return "lock";
        }
        boolean isAssignment = node instanceof VarInsnNode && opcode >= Opcodes.ISTORE && opcode <= Opcodes.ASTORE;
        return isAssignment || leavesValue(opcode) && isLastOfBlock(at) ? "set" : null;
    }

    /** True for an instruction that pushes a value, as the two branches of `a ? b : c` do. */
    private static boolean leavesValue(int opcode) {
        return opcode >= Opcodes.ACONST_NULL && opcode <= Opcodes.ALOAD || opcode >= Opcodes.IADD && opcode <= Opcodes.DCMPG
                || opcode == Opcodes.ARRAYLENGTH || opcode == Opcodes.CHECKCAST || opcode == Opcodes.INSTANCEOF;
    }

    private boolean isLastOfBlock(int at) {
        for (int next = at + 1; next < kinds.length; next++) {
            int opcode = method.node.instructions.get(next).getOpcode();
            if (opcode >= 0) {
                return opcode == Opcodes.GOTO || method.flow.blocks[next] != method.flow.blocks[at];
            }
        }
        return true;
    }

    // --- what is written

    private Map<String, Object> json() {
        List<Object> nodes = new ArrayList<>();
        for (int at = 0; at < kinds.length; at++) {
            if (kinds[at] != null) {
                AbstractInsnNode node = method.node.instructions.get(at);
                boolean isThrow = kinds[at].equals("throw");
                List<Integer> caught = new ArrayList<>();
                for (int handler : isThrow ? new int[0] : method.flow.handlers(at)) {
                    caught.add(numbers.get(handler));
                }
                nodes.add(List.of(kinds[at], line(at), text(node), ordinals.getOrDefault(at, -1), uses(node),
                        isThrow ? thrownTo(node, at) : following(at), caught));
            }
        }
        Map<String, Object> found = new HashMap<>();
        found.put("file", method.file);
        found.put("entry", kinds[0] != null ? List.of(numbers.get(0)) : following(0));
        found.put("nodes", nodes);
        return found;
    }

    /** The line of an instruction. A handler is a label, and its line number comes after it. */
    private int line(int at) {
        int real = at;
        while (real + 1 < kinds.length && method.node.instructions.get(real).getOpcode() < 0) {
            real++;
        }
        return method.line(real);
    }

    private String text(AbstractInsnNode node) {
        if (node instanceof MethodInsnNode call) {
            return call.owner.replace('/', '.') + "." + call.name;
        }
        if (node instanceof InvokeDynamicInsnNode made) {
            return "lambda." + made.name;
        }
        if (node instanceof FieldInsnNode field) {
            return hierarchy.field(field.owner, field.name);
        }
        if (node instanceof TypeInsnNode type) {
            return type.desc.replace('/', '.');
        }
        if (node.getOpcode() == Opcodes.ATHROW) {
            return thrown(node).replace('/', '.');
        }
        return node instanceof LabelNode ? caughtType(node).replace('/', '.') : "";
    }

    /** The operands; those of a static field begin with an empty one for the object. */
    private List<Object> uses(AbstractInsnNode node) {
        List<Object> found = new ArrayList<>();
        if (node.getOpcode() == Opcodes.PUTSTATIC) {
            found.add(List.of());
        }
        sources.operands(node).forEach(operand -> found.add(numbered(operand)));
        return found;
    }

    /** Numbers of instructions; parameters count from -1 downwards. */
    private List<Integer> numbered(Set<AbstractInsnNode> values) {
        Set<Integer> found = new TreeSet<>();
        for (AbstractInsnNode each : values) {
            int parameter = sources.parameter(each);
            found.add(parameter >= 0 ? -1 - parameter : numbers.get(index(each)));
        }
        return new ArrayList<>(found);
    }

    /** The numbers of the instructions that follow, over those that don't matter. */
    private List<Integer> following(int at) {
        Set<Integer> found = new LinkedHashSet<>();
        for (int next : method.flow.next(at)) {
            Set<Integer> seen = new LinkedHashSet<>();
            int here = next;
            while (kinds[here] == null && seen.add(here) && method.flow.next(here).length > 0) {
                here = method.flow.next(here)[0];
            }
            if (kinds[here] != null) {
                found.add(numbers.get(here));
            }
        }
        return new ArrayList<>(found);
    }

    // --- exceptions

    /** Where a thrown exception leads to: handlers, and out of the method if none of them surely catches it. */
    private List<Integer> thrownTo(AbstractInsnNode node, int at) {
        String type = thrown(node);
        List<Integer> found = new ArrayList<>();
        for (TryCatchBlockNode each : method.node.tryCatchBlocks) {
            if (index(each.start) <= at && at < index(each.end)) {
                boolean isSure = each.type == null || each.type.equals("java/lang/Throwable") || hierarchy.is(type, each.type);
                if (isSure || hierarchy.is(each.type, type)) {
                    found.add(numbers.get(index(each.handler)));
                }
                if (isSure) {
                    return found;
                }
            }
        }
        found.add(LEAVES);
        return found;
    }

    /** The class of the exception, as far as the method shows it. */
    private String thrown(AbstractInsnNode node) {
        Set<String> found = new LinkedHashSet<>();
        for (Set<AbstractInsnNode> operand : sources.operands(node)) {
            for (AbstractInsnNode each : sources.throughAssignments(operand)) {
                found.add(each instanceof TypeInsnNode made ? made.desc : each instanceof LabelNode ? caughtType(each) : "");
            }
        }
        String only = found.size() == 1 ? found.iterator().next() : "";
        return only.isEmpty() ? "java/lang/Throwable" : only;
    }

    /** The class that a handler catches; empty if it catches everything, or one of several classes. */
    private String caughtType(AbstractInsnNode handler) {
        Set<String> found = new LinkedHashSet<>();
        for (TryCatchBlockNode each : method.node.tryCatchBlocks) {
            if (each.handler == handler) {
                found.add(each.type == null ? "" : each.type);
            }
        }
        return found.size() == 1 ? found.iterator().next() : found.contains("") ? "" : "java/lang/Exception";
    }
}
