package undermine.agent.values;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.FieldInsnNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.IntInsnNode;
import org.objectweb.asm.tree.InvokeDynamicInsnNode;
import org.objectweb.asm.tree.LdcInsnNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.TypeInsnNode;
import org.objectweb.asm.tree.analysis.Interpreter;

/** Follows objects by their origin, and numbers as sums of clock readings, through one method. */
public final class ValueInterpreter extends Interpreter<AbstractValue> {
    private static final int SUMS_MAX = 4;
    private static final Map<String, Double> CLOCKS = Map.of(
            "java/lang/System.currentTimeMillis()J", 1e-3, "java/lang/System.nanoTime()J", 1e-9,
            "java/time/Clock.millis()J", 1e-3, "java/time/Instant.toEpochMilli()J", 1e-3);
    private static final Map<String, Double> UNITS = Map.of(
            "toNanos", 1e-9, "toMicros", 1e-6, "toMillis", 1e-3, "toSeconds", 1.0, "toMinutes", 60.0,
            "NANOSECONDS", 1e-9, "MICROSECONDS", 1e-6, "MILLISECONDS", 1e-3, "SECONDS", 1.0, "MINUTES", 60.0);

    /** Answers the questions of the interpreter about other classes. */
    public interface Program {
        /** The class that declares this field, and its name: `a.b.C.field`. */
        String field(String owner, String name);

        /** The field that a method only returns, also a synthetic one: `a.b.C.field`; empty if it does anything else. */
        String behind(MethodInsnNode call);

        /** The sums that a method without parameters returns; empty if unknown. */
        Set<Sum> returned(MethodInsnNode call);
    }

    private final Program program;
    private final String owner;
    private final InsnList code;

    public ValueInterpreter(Program program, String owner, InsnList code) {
        super(Opcodes.ASM9);
        this.program = program;
        this.owner = owner;
        this.code = code;
    }

    // --- where values begin

    @Override
    public AbstractValue newValue(Type type) {
        if (type == null) {
            return AbstractValue.UNSET;
        }
        return type == Type.VOID_TYPE ? null : typed(type, Set.of(), Set.of());
    }

    private static AbstractValue typed(Type type, Set<Origin> origins, Set<Sum> sums) {
        String name = type.getSort() == Type.OBJECT || type.getSort() == Type.ARRAY ? type.getInternalName() : "";
        boolean isInteger = type.getSort() == Type.LONG || type.getSort() == Type.INT;
        return new AbstractValue(type.getSize(), name, name.isEmpty() ? Set.of() : origins, isInteger ? sums : Set.of());
    }

    @Override
    public AbstractValue newParameterValue(boolean isInstanceMethod, int local, Type type) {
        if (isInstanceMethod && local == 0) {
            return AbstractValue.object(owner, new Origin(Origin.Kind.THIS, "this of " + owner.replace('/', '.'), -1));
        }
        Origin origin = new Origin(Origin.Kind.PARAMETER, "parameter " + local, -1);
        return typed(type, Set.of(origin), Set.of(other("parameter" + local)));
    }

    @Override
    public AbstractValue newExceptionValue(org.objectweb.asm.tree.TryCatchBlockNode block,
            org.objectweb.asm.tree.analysis.Frame<AbstractValue> frame, Type type) {
        return typed(type, Set.of(), Set.of());
    }

    private static Sum other(String text) {
        return Sum.of(new Sum.Term(Sum.Kind.OTHER, text, -1, 0));
    }

    @Override
    public AbstractValue newOperation(AbstractInsnNode node) {
        int opcode = node.getOpcode();
        if (opcode == Opcodes.ACONST_NULL) {
            return AbstractValue.object("", Origin.NULL);
        }
        if (opcode >= Opcodes.ICONST_M1 && opcode <= Opcodes.ICONST_5) {
            return constant(1, opcode - Opcodes.ICONST_0);
        }
        if (opcode == Opcodes.LCONST_0 || opcode == Opcodes.LCONST_1) {
            return constant(2, opcode - Opcodes.LCONST_0);
        }
        if (node instanceof IntInsnNode number) {
            return constant(1, number.operand);
        }
        if (node instanceof LdcInsnNode loaded) {
            return loaded(loaded.cst);
        }
        if (node instanceof FieldInsnNode field) {
            return field(field);
        }
        if (node instanceof TypeInsnNode made) {
            String text = "new " + made.desc + " at " + code.indexOf(node);
            return AbstractValue.object(made.desc, new Origin(Origin.Kind.NEW, text, code.indexOf(node)));
        }
        return AbstractValue.unknown(opcode == Opcodes.DCONST_0 || opcode == Opcodes.DCONST_1 ? 2 : 1);
    }

    private static AbstractValue constant(int size, double value) {
        return AbstractValue.number(size, Set.of(Sum.of(value)));
    }

    private static AbstractValue loaded(Object constant) {
        if (constant instanceof Integer || constant instanceof Long) {
            return constant(constant instanceof Long ? 2 : 1, ((Number) constant).doubleValue());
        }
        if (constant instanceof Type type && type.getSort() == Type.OBJECT) {
            return AbstractValue.object("java/lang/Class", new Origin(Origin.Kind.CLASS, type.getClassName() + ".class", -1));
        }
        return AbstractValue.unknown(constant instanceof Double || constant instanceof Long ? 2 : 1);
    }

    private AbstractValue field(FieldInsnNode field) {
        return field(Type.getType(field.desc), program.field(field.owner, field.name));
    }

    private static AbstractValue field(Type type, String name) {
        Sum.Term term = new Sum.Term(Sum.Kind.FIELD, name, -1, 0);
        return typed(type, Set.of(new Origin(Origin.Kind.FIELD, name, -1)), Set.of(Sum.of(term)));
    }

    // --- how they go on

    @Override
    public AbstractValue copyOperation(AbstractInsnNode node, AbstractValue value) {
        return value;
    }

    @Override
    public AbstractValue unaryOperation(AbstractInsnNode node, AbstractValue value) {
        switch (node.getOpcode()) {
            case Opcodes.GETFIELD:
                return field((FieldInsnNode) node);
            case Opcodes.INEG, Opcodes.LNEG:
                return AbstractValue.number(value.size(), scaled(value.sums(), -1));
            case Opcodes.I2L:
                return AbstractValue.number(2, value.sums());
            case Opcodes.L2I:
                return AbstractValue.number(1, value.sums());
            case Opcodes.CHECKCAST:
                return new AbstractValue(1, ((TypeInsnNode) node).desc, value.origins(), Set.of());
            case Opcodes.I2D, Opcodes.L2D, Opcodes.F2L, Opcodes.F2D, Opcodes.D2L, Opcodes.DNEG:
                return AbstractValue.LONG;
            case Opcodes.PUTSTATIC, Opcodes.TABLESWITCH, Opcodes.LOOKUPSWITCH, Opcodes.ATHROW, Opcodes.MONITORENTER,
                    Opcodes.MONITOREXIT, Opcodes.IFEQ, Opcodes.IFNE, Opcodes.IFLT, Opcodes.IFGE, Opcodes.IFGT, Opcodes.IFLE,
                    Opcodes.IFNULL, Opcodes.IFNONNULL, Opcodes.IRETURN, Opcodes.LRETURN, Opcodes.FRETURN, Opcodes.DRETURN,
                    Opcodes.ARETURN:
                return null;
            default:
                return AbstractValue.UNSET;
        }
    }

    private static Set<Sum> scaled(Set<Sum> sums, double factor) {
        Set<Sum> found = new HashSet<>();
        sums.forEach(sum -> found.add(sum.times(factor)));
        return found;
    }

    /** All sums of one of each; empty if there are too many. */
    public static Set<Sum> combined(Set<Sum> left, Set<Sum> right, double factor) {
        Set<Sum> found = new HashSet<>();
        for (Sum one : left) {
            for (Sum other : right) {
                Sum sum = one.plus(other, factor);
                if (sum == null || found.size() >= SUMS_MAX) {
                    return Set.of();
                }
                found.add(sum);
            }
        }
        return found;
    }

    @Override
    public AbstractValue binaryOperation(AbstractInsnNode node, AbstractValue left, AbstractValue right) {
        switch (node.getOpcode()) {
            case Opcodes.IADD, Opcodes.LADD:
                return AbstractValue.number(left.size(), combined(left.sums(), right.sums(), 1));
            case Opcodes.ISUB, Opcodes.LSUB:
                return AbstractValue.number(left.size(), combined(left.sums(), right.sums(), -1));
            case Opcodes.LCMP: // the sign of the difference
                return AbstractValue.number(1, combined(left.sums(), right.sums(), -1));
            case Opcodes.IMUL, Opcodes.LMUL:
                return AbstractValue.number(left.size(), product(left, right));
            case Opcodes.IDIV, Opcodes.LDIV:
                double divisor = only(right);
                return AbstractValue.number(left.size(), divisor == 0 ? Set.of() : scaled(left.sums(), 1 / divisor));
            case Opcodes.AALOAD:
                return left.key().isEmpty()
                        ? AbstractValue.UNSET
                        : AbstractValue.object(element(left.type()), new Origin(Origin.Kind.CALL, left.key() + "[]", -1));
            case Opcodes.LALOAD, Opcodes.DALOAD, Opcodes.DADD, Opcodes.DSUB, Opcodes.DMUL, Opcodes.DDIV, Opcodes.DREM,
                    Opcodes.LREM, Opcodes.LSHL, Opcodes.LSHR, Opcodes.LUSHR, Opcodes.LAND, Opcodes.LOR, Opcodes.LXOR:
                return AbstractValue.LONG;
            case Opcodes.IF_ICMPEQ, Opcodes.IF_ICMPNE, Opcodes.IF_ICMPLT, Opcodes.IF_ICMPGE, Opcodes.IF_ICMPGT,
                    Opcodes.IF_ICMPLE, Opcodes.IF_ACMPEQ, Opcodes.IF_ACMPNE, Opcodes.PUTFIELD:
                return null;
            default:
                return AbstractValue.UNSET;
        }
    }

    private static String element(String array) {
        return array.startsWith("[L") && array.endsWith(";") ? array.substring(2, array.length() - 1) : "";
    }

    private static Set<Sum> product(AbstractValue left, AbstractValue right) {
        double factor = only(right);
        if (factor != 0) {
            return scaled(left.sums(), factor);
        }
        factor = only(left);
        return factor == 0 ? Set.of() : scaled(right.sums(), factor);
    }

    /** The constant that a number is; 0 if it isn't one. */
    private static double only(AbstractValue value) {
        Sum sum = value.sums().size() == 1 ? value.sums().iterator().next() : null;
        return sum != null && sum.isConstant() ? sum.constant() : 0;
    }

    @Override
    public AbstractValue ternaryOperation(AbstractInsnNode node, AbstractValue one, AbstractValue two, AbstractValue three) {
        return null;
    }

    @Override
    public AbstractValue naryOperation(AbstractInsnNode node, List<? extends AbstractValue> values) {
        if (node instanceof InvokeDynamicInsnNode made) {
            int at = code.indexOf(node);
            Type type = Type.getReturnType(made.desc);
            return type == Type.VOID_TYPE ? null
                    : typed(type, Set.of(new Origin(Origin.Kind.LAMBDA, "lambda at " + at, at)), Set.of());
        }
        if (!(node instanceof MethodInsnNode call)) {
            return AbstractValue.UNSET;
        }
        Type type = Type.getReturnType(call.desc);
        if (type == Type.VOID_TYPE) {
            return null;
        }
        String field = program.behind(call);
        if (!field.isEmpty()) {
            return field(type, field);
        }
        String receiver = call.getOpcode() == Opcodes.INVOKESTATIC || values.isEmpty()
                ? call.owner.replace('/', '.') : values.get(0).key();
        int at = code.indexOf(node);
        Set<Origin> origins = receiver.isEmpty() || receiver.length() > 100 ? Set.of()
                : Set.of(new Origin(Origin.Kind.CALL, receiver + "." + call.name + "()", at));
        return typed(type, origins, result(call, values, at));
    }

    private Set<Sum> result(MethodInsnNode call, List<? extends AbstractValue> values, int at) {
        Double unit = CLOCKS.get(call.owner + "." + call.name + call.desc);
        if (unit != null) {
            return Set.of(Sum.of(new Sum.Term(Sum.Kind.CLOCK, "clock", at, unit)));
        }
        if (call.owner.equals("java/lang/Math") && (call.name.equals("max") || call.name.equals("min")) && values.size() == 2) {
            Set<Sum> either = new HashSet<>(values.get(0).sums());
            either.addAll(values.get(1).sums());
            return either.size() > SUMS_MAX ? Set.of() : either;
        }
        if (call.owner.equals("java/util/concurrent/TimeUnit") && call.desc.equals("(J)J") && values.size() == 2) {
            String from = values.get(0).key();
            Double given = UNITS.get(from.substring(from.lastIndexOf('.') + 1));
            Double wanted = UNITS.get(call.name);
            return given == null || wanted == null ? Set.of() : scaled(values.get(1).sums(), ratio(given, wanted));
        }
        Set<Sum> found = new HashSet<>();
        program.returned(call).forEach(sum -> found.add(sum.readAt(at)));
        return found.isEmpty() ? Set.of(other(call.name + "()")) : found;
    }

    /** Units are multiples of each other: no rounding error is left. */
    private static double ratio(double given, double wanted) {
        return given >= wanted ? Math.rint(given / wanted) : 1 / Math.rint(wanted / given);
    }

    @Override
    public void returnOperation(AbstractInsnNode node, AbstractValue value, AbstractValue expected) {
    }

    @Override
    public AbstractValue merge(AbstractValue one, AbstractValue other) {
        return one.or(other);
    }
}
