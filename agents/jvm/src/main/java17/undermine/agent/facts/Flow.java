package undermine.agent.facts;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Deque;
import java.util.List;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.JumpInsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.LookupSwitchInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.TableSwitchInsnNode;
import org.objectweb.asm.tree.TryCatchBlockNode;

/** The ways through the instructions of a method, with and without exceptions. */
final class Flow {
    private final int size;
    private final List<int[]> next = new ArrayList<>();
    private final List<int[]> before = new ArrayList<>();
    /** For each instruction, the handlers that an exception there may reach. */
    private final List<int[]> handlers = new ArrayList<>();
    /** For each instruction, the number of its basic block. */
    final int[] blocks;

    Flow(MethodNode method) {
        InsnList code = method.instructions;
        size = code.size();
        blocks = new int[size];
        BitSet leaders = new BitSet();
        List<List<Integer>> incoming = new ArrayList<>();
        for (int at = 0; at < size; at++) {
            incoming.add(new ArrayList<>(1));
        }
        for (int at = 0; at < size; at++) {
            int[] found = following(code, code.get(at), at, leaders);
            next.add(found);
            for (int each : found) {
                incoming.get(each).add(at);
            }
        }
        incoming.forEach(each -> before.add(each.stream().mapToInt(Integer::intValue).toArray()));
        readHandlers(code, method.tryCatchBlocks, leaders);
        int block = 0;
        for (int at = 0; at < size; at++) {
            block += leaders.get(at) ? 1 : 0;
            blocks[at] = block;
        }
    }

    private int[] following(InsnList code, AbstractInsnNode node, int at, BitSet leaders) {
        List<Integer> found = new ArrayList<>(1);
        int opcode = node.getOpcode();
        boolean ends = opcode == Opcodes.GOTO || opcode == Opcodes.ATHROW || opcode == Opcodes.RET
                || opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN
                || opcode == Opcodes.TABLESWITCH || opcode == Opcodes.LOOKUPSWITCH;
        if (!ends && at + 1 < size) {
            found.add(at + 1);
        }
        List<LabelNode> targets = new ArrayList<>();
        if (node instanceof JumpInsnNode jump) {
            targets.add(jump.label);
        } else if (node instanceof TableSwitchInsnNode table) {
            targets.add(table.dflt);
            targets.addAll(table.labels);
        } else if (node instanceof LookupSwitchInsnNode lookup) {
            targets.add(lookup.dflt);
            targets.addAll(lookup.labels);
        }
        for (LabelNode label : targets) {
            found.add(code.indexOf(label));
            leaders.set(code.indexOf(label));
        }
        if (ends || !targets.isEmpty()) {
            leaders.set(Math.min(at + 1, size));
        }
        return found.stream().mapToInt(Integer::intValue).toArray();
    }

    private void readHandlers(InsnList code, List<TryCatchBlockNode> tries, BitSet leaders) {
        List<List<Integer>> found = new ArrayList<>();
        for (int at = 0; at < size; at++) {
            found.add(null);
        }
        BitSet caught = new BitSet(); // by a handler for everything: those after it are never reached
        for (TryCatchBlockNode each : tries) {
            int handler = code.indexOf(each.handler);
            boolean isForAll = each.type == null || each.type.equals("java/lang/Throwable");
            leaders.set(handler);
            for (int at = code.indexOf(each.start); at < code.indexOf(each.end); at++) {
                if (caught.get(at)) {
                    continue;
                }
                caught.set(at, isForAll);
                if (found.get(at) == null) {
                    found.set(at, new ArrayList<>(1));
                }
                found.get(at).add(handler);
            }
        }
        found.forEach(each -> handlers.add(each == null ? new int[0] : each.stream().mapToInt(Integer::intValue).toArray()));
    }

    int size() {
        return size;
    }

    int[] next(int at) {
        return next.get(at);
    }

    /** The handlers that an exception of this instruction may reach. */
    int[] handlers(int at) {
        return handlers.get(at);
    }

    /** All instructions on the ways from these on, also over exceptions. `ends` are reached, but not passed. */
    BitSet after(int[] starts, BitSet ends) {
        return reached(starts, ends, true, true);
    }

    /** The same without exceptions. */
    BitSet afterWithoutErrors(int[] starts, BitSet ends) {
        return reached(starts, ends, true, false);
    }

    /** All instructions from which this one may be reached without an exception. `ends` are reached, but not passed. */
    BitSet before(int at, BitSet ends) {
        return reached(before.get(at), ends, false, false);
    }

    private BitSet reached(int[] starts, BitSet ends, boolean isForward, boolean withErrors) {
        BitSet found = new BitSet(size);
        Deque<Integer> left = new ArrayDeque<>();
        for (int each : starts) {
            left.add(each);
        }
        while (!left.isEmpty()) {
            int at = left.poll();
            if (found.get(at)) {
                continue;
            }
            found.set(at);
            if (ends.get(at)) {
                continue;
            }
            for (int each : isForward ? next.get(at) : before.get(at)) {
                left.add(each);
            }
            for (int each : withErrors ? handlers.get(at) : new int[0]) {
                left.add(each);
            }
        }
        return found;
    }

    /** True if the instruction can be reached again from itself. */
    boolean isInLoop(int at) {
        return afterWithoutErrors(next.get(at), new BitSet()).get(at);
    }
}
