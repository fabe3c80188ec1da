package undermine.agent.facts;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.InvokeDynamicInsnNode;
import org.objectweb.asm.tree.LineNumberNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.analysis.Analyzer;
import org.objectweb.asm.tree.analysis.AnalyzerException;
import org.objectweb.asm.tree.analysis.Frame;
import undermine.agent.values.AbstractValue;
import undermine.agent.values.Sum;
import undermine.agent.values.ValueInterpreter;

/** One method of the target: its instructions, calls, ways, and the values that its calls and comparisons use. */
final class MethodCode {
    private static final long CELLS_MAX = 4_000_000;

    /**
     * A call.
     *
     * @param at the index of its instruction
     * @param ordinal its number among the calls of the method
     * @param node its instruction; null for a call that creates a lambda
     * @param values the receiver and the arguments; empty if unknown
     */
    record Call(MethodCode method, int at, int ordinal, MethodInsnNode node, List<AbstractValue> values) {
        boolean isStatic() {
            return node.getOpcode() == Opcodes.INVOKESTATIC;
        }

        /** The object that it is called on, or an unknown value. */
        AbstractValue receiver() {
            return isStatic() || values.isEmpty() ? AbstractValue.UNSET : values.get(0);
        }

        AbstractValue argument(int number) {
            int at = number + (isStatic() ? 0 : 1);
            return at < values.size() ? values.get(at) : AbstractValue.UNSET;
        }

        String where() {
            return method.where(at);
        }
    }

    final String owner;
    final MethodNode node;
    /** `package:Class.method`, as in the names of call sites. */
    final String id;
    final String file;
    final Flow flow;
    final List<Call> calls = new ArrayList<>();
    /** The operands of monitors, comparisons, stores to fields and returns, by the index of the instruction. */
    final Map<Integer, List<AbstractValue>> operands = new HashMap<>();
    private final int[] lines;
    /** Why the values are unknown; empty if they are known. */
    String trouble = "";

    MethodCode(String owner, MethodNode node, String id, String file) {
        this.owner = owner;
        this.node = node;
        this.id = id;
        this.file = file;
        flow = new Flow(node);
        lines = new int[flow.size()];
        int line = 0;
        for (int at = 0; at < lines.length; at++) {
            AbstractInsnNode each = node.instructions.get(at);
            line = each instanceof LineNumberNode mark ? mark.line : line;
            lines[at] = line;
        }
    }

    /** Find the values and the calls. The frames of all instructions are dropped afterwards. */
    void analyse(ValueInterpreter.Program program) {
        Frame<AbstractValue>[] frames = frames(program);
        calls.clear();
        operands.clear();
        int ordinal = 0;
        for (int at = 0; at < flow.size(); at++) {
            AbstractInsnNode each = node.instructions.get(at);
            Frame<AbstractValue> frame = frames == null ? null : frames[at];
            if (each instanceof MethodInsnNode call) {
                int count = Type.getArgumentTypes(call.desc).length + (call.getOpcode() == Opcodes.INVOKESTATIC ? 0 : 1);
                calls.add(new Call(this, at, ordinal++, call, top(frame, count)));
            } else if (each instanceof InvokeDynamicInsnNode) {
                calls.add(new Call(this, at, ordinal++, null, List.of()));
            } else if (frame != null) {
                int count = operandCount(each.getOpcode());
                if (count > 0) {
                    operands.put(at, top(frame, count));
                }
            }
        }
    }

    private Frame<AbstractValue>[] frames(ValueInterpreter.Program program) {
        long cells = (long) flow.size() * (node.maxLocals + node.maxStack + 1);
        if (cells > CELLS_MAX) {
            trouble = "the method is too large: values are unknown in it";
            return null;
        }
        try {
            return new Analyzer<>(new ValueInterpreter(program, owner, node.instructions)).analyze(owner, node);
        } catch (AnalyzerException | RuntimeException broken) {
            trouble = ClassPath.reason(broken);
            return null;
        }
    }

    private static List<AbstractValue> top(Frame<AbstractValue> frame, int count) {
        if (frame == null || frame.getStackSize() < count) {
            return List.of();
        }
        List<AbstractValue> found = new ArrayList<>(count);
        for (int i = frame.getStackSize() - count; i < frame.getStackSize(); i++) {
            found.add(frame.getStack(i));
        }
        return found;
    }

    private static int operandCount(int opcode) {
        if (opcode >= Opcodes.IF_ICMPEQ && opcode <= Opcodes.IF_ICMPLE || opcode == Opcodes.PUTFIELD) {
            return 2;
        }
        boolean isOne = opcode >= Opcodes.IFEQ && opcode <= Opcodes.IFLE || opcode == Opcodes.MONITORENTER
                || opcode == Opcodes.MONITOREXIT || opcode == Opcodes.PUTSTATIC
                || opcode == Opcodes.LRETURN || opcode == Opcodes.IRETURN;
        return isOne ? 1 : 0;
    }

    /** The sums that it returns; empty if one of them is unknown. */
    Set<Sum> returned() {
        Set<Sum> found = new HashSet<>();
        for (Map.Entry<Integer, List<AbstractValue>> each : operands.entrySet()) {
            int opcode = node.instructions.get(each.getKey()).getOpcode();
            if (opcode == Opcodes.LRETURN || opcode == Opcodes.IRETURN) {
                if (each.getValue().isEmpty() || each.getValue().get(0).sums().isEmpty()) {
                    return Set.of();
                }
                found.addAll(each.getValue().get(0).sums());
            }
        }
        return found;
    }

    boolean is(int flag) {
        return (node.access & flag) != 0;
    }

    int line(int at) {
        return lines[at];
    }

    int firstLine() {
        for (int line : lines) {
            if (line > 0) {
                return line;
            }
        }
        return 0;
    }

    /** The number of lines that have code. */
    int lineCount() {
        return (int) Arrays.stream(lines).filter(line -> line > 0).distinct().count();
    }

    String where(int at) {
        return file + ":" + lines[at];
    }

    /** `Class.method`, for texts. */
    String shortName() {
        return id.substring(id.indexOf(':') + 1);
    }

    /** The ordinals of the calls among these instructions. */
    Set<Integer> ordinals(BitSet instructions) {
        Set<Integer> found = new TreeSet<>();
        for (Call call : calls) {
            if (instructions.get(call.at)) {
                found.add(call.ordinal);
            }
        }
        return found;
    }
}
