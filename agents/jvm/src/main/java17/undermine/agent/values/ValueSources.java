package undermine.agent.values;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.InsnNode;
import org.objectweb.asm.tree.TryCatchBlockNode;
import org.objectweb.asm.tree.VarInsnNode;
import org.objectweb.asm.tree.analysis.Frame;
import org.objectweb.asm.tree.analysis.SourceInterpreter;
import org.objectweb.asm.tree.analysis.SourceValue;

/**
 * Finds for each operand of an instruction the instructions that its value may come from. Only instructions that matter count as
 * sources: a value passes through copies and arithmetic. The source of a caught exception is the label of its handler.
 */
public final class ValueSources extends SourceInterpreter {
    private final Predicate<AbstractInsnNode> matters;
    private final Map<AbstractInsnNode, List<Set<AbstractInsnNode>>> operands = new HashMap<>();
    private final Map<AbstractInsnNode, Integer> parameters = new HashMap<>();

    public ValueSources(Predicate<AbstractInsnNode> matters) {
        super(Opcodes.ASM9);
        this.matters = matters;
    }

    /** The sources of each operand; empty for an instruction that is never reached. */
    public List<Set<AbstractInsnNode>> operands(AbstractInsnNode node) {
        return operands.getOrDefault(node, List.of());
    }

    /** The number of the parameter that this source stands for; -1 if it is an instruction. */
    public int parameter(AbstractInsnNode source) {
        return parameters.getOrDefault(source, -1);
    }

    /** The same sources, with those of assignments instead of the assignments. */
    public Set<AbstractInsnNode> throughAssignments(Set<AbstractInsnNode> values) {
        Set<AbstractInsnNode> seen = new LinkedHashSet<>(values);
        List<AbstractInsnNode> left = new ArrayList<>(values);
        for (int i = 0; i < left.size(); i++) {
            AbstractInsnNode each = left.get(i);
            if (each instanceof VarInsnNode) {
                for (Set<AbstractInsnNode> operand : operands(each)) {
                    operand.stream().filter(seen::add).forEach(left::add);
                }
            }
        }
        seen.removeIf(each -> each instanceof VarInsnNode);
        return seen;
    }

    /** The value that an instruction produces. The last call for an instruction sees all sources. */
    private SourceValue made(AbstractInsnNode node, SourceValue made, List<? extends SourceValue> used) {
        if (matters.test(node)) {
            List<Set<AbstractInsnNode>> found = new ArrayList<>();
            used.forEach(each -> found.add(each.insns));
            operands.put(node, found);
            return made;
        }
        Set<AbstractInsnNode> all = new HashSet<>();
        used.forEach(each -> all.addAll(each.insns));
        return new SourceValue(made.getSize(), all);
    }

    @Override
    public SourceValue newParameterValue(boolean isInstanceMethod, int local, Type type) {
        AbstractInsnNode source = new InsnNode(Opcodes.NOP);
        parameters.put(source, parameters.size());
        return new SourceValue(type.getSize(), source);
    }

    @Override
    public SourceValue newExceptionValue(TryCatchBlockNode block, Frame<SourceValue> frame, Type type) {
        return new SourceValue(1, block.handler);
    }

    @Override
    public SourceValue newOperation(AbstractInsnNode node) {
        return made(node, super.newOperation(node), List.of());
    }

    @Override
    public SourceValue copyOperation(AbstractInsnNode node, SourceValue value) {
        return node instanceof VarInsnNode ? made(node, super.copyOperation(node, value), List.of(value)) : value;
    }

    @Override
    public SourceValue unaryOperation(AbstractInsnNode node, SourceValue value) {
        return made(node, super.unaryOperation(node, value), List.of(value));
    }

    @Override
    public SourceValue binaryOperation(AbstractInsnNode node, SourceValue one, SourceValue two) {
        return made(node, super.binaryOperation(node, one, two), List.of(one, two));
    }

    @Override
    public SourceValue ternaryOperation(AbstractInsnNode node, SourceValue one, SourceValue two, SourceValue three) {
        return made(node, super.ternaryOperation(node, one, two, three), List.of(one, two, three));
    }

    @Override
    public SourceValue naryOperation(AbstractInsnNode node, List<? extends SourceValue> values) {
        return made(node, super.naryOperation(node, values), values);
    }
}
