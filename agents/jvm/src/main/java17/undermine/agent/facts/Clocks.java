package undermine.agent.facts;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.Opcodes;
import undermine.agent.values.Sum;
import undermine.agent.values.ValueInterpreter;

/**
 * Finds the code between two clock readings whose difference decides a branch.
 *
 * A start time may be in a local variable or in a field. A field is a time if a clock reading is stored in it, or a sum that
 * contains one. The region of a field reaches from where the method, or a method that it calls, stores the field, to the
 * comparison. If another method stores it, the code before that store renews a lease.
 */
final class Clocks {
    private static final int STORE_DEPTH = 2;
    private static final int SETTER_MAX = 40;
    private static final double EXACT = 1e-6;

    private final TargetClasses classes;
    private final CallGraph graph;
    /** Fields with times, and the seconds in one unit. */
    private final Map<String, Double> times = new HashMap<>();
    private final List<Region> found = new ArrayList<>();
    private final Map<String, Map<MethodCode, Integer>> storing = new HashMap<>();

    Clocks(TargetClasses classes, CallGraph graph) {
        this.classes = classes;
        this.graph = graph;
        findTimes();
    }

    /** A field may be copied from another one, so this looks twice. */
    private void findTimes() {
        for (int round = 0; round < 2; round++) {
            classes.stores.forEach((field, stores) -> {
                for (TargetClasses.Store store : stores) {
                    for (Sum sum : store.value().sums()) {
                        double unit = unitOfTime(sum);
                        if (unit > 0) {
                            times.putIfAbsent(field, unit);
                        }
                    }
                }
            });
        }
    }

    /** The seconds in one unit of a sum that is a time; 0 if it isn't one, as the difference of two times. */
    private double unitOfTime(Sum sum) {
        double rate = rate(sum);
        return rate > EXACT ? 1 / rate : 0;
    }

    /** By how much a sum grows in a second. */
    private double rate(Sum sum) {
        double rate = 0;
        for (Map.Entry<Sum.Term, Double> each : sum.terms().entrySet()) {
            rate += unit(each.getKey()) > 0 ? each.getValue() / unit(each.getKey()) : 0;
        }
        return rate;
    }

    private double unit(Sum.Term term) {
        return term.kind() == Sum.Kind.CLOCK ? term.unit()
                : term.kind() == Sum.Kind.FIELD ? times.getOrDefault(term.text(), 0.0) : 0;
    }

    List<Region> regions() {
        for (MethodCode method : classes.methods) {
            method.operands.forEach((at, values) -> {
                int opcode = method.node.instructions.get(at).getOpcode();
                if (opcode >= Opcodes.IFLT && opcode <= Opcodes.IFLE && !values.isEmpty()) {
                    compared(method, at, values.get(0).sums());
                } else if (opcode >= Opcodes.IF_ICMPLT && opcode <= Opcodes.IF_ICMPLE && values.size() == 2) {
                    compared(method, at, ValueInterpreter.combined(values.get(0).sums(), values.get(1).sums(), -1));
                }
            });
        }
        return found;
    }

    private void compared(MethodCode method, int at, Set<Sum> differences) {
        for (Sum difference : withStored(method, at, differences)) {
            List<Map.Entry<Sum.Term, Double>> parts = new ArrayList<>();
            for (Map.Entry<Sum.Term, Double> each : difference.terms().entrySet()) {
                if (unit(each.getKey()) > 0) {
                    parts.add(each);
                }
            }
            if (parts.size() == 2 && Math.abs(rate(difference)) < EXACT) {
                add(method, at, difference, parts);
            }
        }
    }

    /** A field that the method itself has stored before counts as what it stored, as in `spent = now - start; if (spent > …)`. */
    private Set<Sum> withStored(MethodCode method, int at, Set<Sum> differences) {
        Set<Sum> found = new HashSet<>();
        for (Sum difference : differences) {
            Set<Sum> expanded = Set.of(difference);
            for (Sum.Term term : difference.terms().keySet()) {
                Set<Sum> stored = term.kind() == Sum.Kind.FIELD && unit(term) == 0 ? stored(method, at, term.text()) : Set.of();
                if (!stored.isEmpty()) {
                    double count = difference.terms().get(term);
                    expanded = ValueInterpreter.combined(expanded, Set.of(Sum.of(term)), -count);
                    expanded = ValueInterpreter.combined(expanded, stored, count);
                }
            }
            found.addAll(expanded);
        }
        return found;
    }

    /** The sums that the only store of the field in this method stores before the instruction. */
    private Set<Sum> stored(MethodCode method, int at, String field) {
        List<TargetClasses.Store> own = classes.stores.getOrDefault(field, List.of()).stream()
                .filter(store -> store.method() == method).toList();
        boolean isBefore = own.size() == 1 && method.flow.before(at, new BitSet()).get(own.get(0).at());
        return isBefore ? own.get(0).value().sums() : Set.of();
    }

    /** One of two readings is the start: the one with the other sign than the later one. */
    private void add(MethodCode method, int at, Sum difference, List<Map.Entry<Sum.Term, Double>> parts) {
        Sum.Term one = parts.get(0).getKey();
        Sum.Term other = parts.get(1).getKey();
        double seconds = unit(one) / Math.abs(parts.get(0).getValue());
        List<Region.Limit> limits = limits(method, at, difference, seconds);
        if (one.kind() == Sum.Kind.CLOCK && other.kind() == Sum.Kind.CLOCK) {
            between(method, at, one.at(), other.at(), limits);
            return;
        }
        Sum.Term field = one.kind() == Sum.Kind.FIELD && !(other.kind() == Sum.Kind.FIELD && isNow(one, other)) ? one : other;
        Sum.Term end = field == one ? other : one;
        stored(method, at, field.text(), end.kind() == Sum.Kind.CLOCK ? end.at() : at, limits);
    }

    /** Of two fields, the one named `now` is the end. */
    private static boolean isNow(Sum.Term one, Sum.Term other) {
        return one.text().toLowerCase().endsWith("now") && !other.text().toLowerCase().endsWith("now");
    }

    /** The reading from which the other is reached is the start; in a loop, that which isn't read again before the test. */
    private void between(MethodCode method, int at, int one, int other, List<Region.Limit> limits) {
        boolean isFirst = method.flow.afterWithoutErrors(method.flow.next(one), only(one)).get(other);
        boolean isSecond = method.flow.afterWithoutErrors(method.flow.next(other), only(other)).get(one);
        int start = isFirst && !(isSecond && one > other) ? one : other;
        int end = start == one ? other : one;
        region(method, new int[] {start}, only(start), end, at, "the clock read in line " + method.line(start), method.where(start), limits);
    }

    /** From the starts to the end. A new time in between, one of `ends`, begins the region anew. */
    private void region(
            MethodCode method, int[] starts, BitSet ends, int end, int at, String begun, String key, List<Region.Limit> limits) {
        BitSet inside = new BitSet();
        for (int start : starts) {
            inside.or(method.flow.afterWithoutErrors(method.flow.next(start), ends));
        }
        inside.and(method.flow.before(end, ends));
        ends.stream().forEach(inside::clear);
        inside.clear(end);
        String why = "between " + begun + " and the comparison with " + named(limits) + " in line " + method.line(at) + " of "
                + method.shortName();
        found.add(new Region("timeout", key, method.where(starts[0]), why, method, method.ordinals(inside), limits));
    }

    private static BitSet only(int at) {
        BitSet found = new BitSet();
        found.set(at);
        return found;
    }

    private static String named(List<Region.Limit> limits) {
        if (limits.isEmpty()) {
            return "a limit";
        }
        Region.Limit first = limits.get(0);
        return first.known() == null ? first.text() : Math.rint(first.known() * first.factor() * 1e6) / 1e6 + " s";
    }

    // --- start times in fields

    private void stored(MethodCode method, int at, String field, int end, List<Region.Limit> limits) {
        Map<MethodCode, Integer> depths = storing.computeIfAbsent(field, this::storingMethods);
        Set<Integer> starts = new HashSet<>();
        BitSet ends = new BitSet();
        for (TargetClasses.Store store : classes.stores.getOrDefault(field, List.of())) {
            if (store.method() == method) {
                starts.add(store.at());
                ends.set(store.at());
            }
        }
        for (MethodCode.Call call : method.calls) {
            Set<MethodCode> callees = graph.callees(call);
            if (callees.size() <= 2 && callees.stream().anyMatch(depths::containsKey)) {
                starts.add(call.at());
                ends.set(call.at(), callees.stream().allMatch(each -> depths.getOrDefault(each, 1) == 0 && isSetter(each)));
            }
        }
        starts.removeIf(start -> start == end || start == at || !method.flow.before(end, new BitSet()).get(start));
        String begun = "the time stored in " + field.substring(field.lastIndexOf('.', field.lastIndexOf('.') - 1) + 1)
                .replace('$', '.');
        if (!starts.isEmpty()) {
            region(method, starts.stream().sorted().mapToInt(Integer::intValue).toArray(), ends, end, at, begun, field, limits);
        } else {
            renewed(method, at, field, begun, limits);
        }
    }

    /** Other methods that store a time may do much before, or not store it at all. */
    private static boolean isSetter(MethodCode method) {
        return method.flow.size() <= SETTER_MAX;
    }

    /** Methods that store a time in the field, and their callers over a few calls. */
    private Map<MethodCode, Integer> storingMethods(String field) {
        Map<MethodCode, Integer> depths = new HashMap<>();
        for (TargetClasses.Store store : classes.stores.getOrDefault(field, List.of())) {
            if (!store.method().node.name.equals("<init>") && store.value().sums().stream().anyMatch(sum -> unitOfTime(sum) > 0)) {
                depths.put(store.method(), 0);
            }
        }
        for (int depth = 1; depth < STORE_DEPTH; depth++) {
            for (MethodCode method : new ArrayList<>(depths.keySet())) {
                for (CallGraph.Caller caller : graph.callers(method)) {
                    if (caller.alternatives() == 1) {
                        depths.putIfAbsent(caller.call().method(), depth);
                    }
                }
            }
        }
        return depths;
    }

    /** Another thread judges by this time. A slow operation before the loop's next store makes it too old. */
    private void renewed(MethodCode judge, int at, String field, String begun, List<Region.Limit> limits) {
        for (TargetClasses.Store store : classes.stores.getOrDefault(field, List.of())) {
            MethodCode method = store.method();
            if (method == judge || method.node.name.equals("<init>") || method.node.name.equals("<clinit>")) {
                continue;
            }
            String why = "before " + begun + " is renewed, which " + judge.shortName() + " (" + judge.where(at) + ") compares with "
                    + named(limits);
            lease(method, store.at(), field, why, limits);
            for (CallGraph.Caller caller : graph.callers(method)) {
                if (caller.alternatives() == 1) {
                    lease(caller.call().method(), caller.call().at(), field, why, limits);
                }
            }
        }
    }

    private void lease(MethodCode method, int at, String field, String why, List<Region.Limit> limits) {
        if (method.flow.isInLoop(at)) {
            BitSet before = method.flow.before(at, only(at));
            before.clear(at);
            BitSet again = method.flow.afterWithoutErrors(method.flow.next(at), new BitSet());
            before.and(again);
            found.add(new Region("lease", field, method.where(at), why, method, method.ordinals(before), limits));
        }
    }

    // --- limits

    /** The rest of the sum is the limit. */
    private List<Region.Limit> limits(MethodCode method, int at, Sum difference, double seconds) {
        List<Sum.Term> rest = difference.terms().keySet().stream().filter(term -> unit(term) == 0).toList();
        String module = method.id.substring(0, method.id.indexOf(':'));
        if (rest.isEmpty()) {
            double value = Math.abs(difference.constant());
            return value == 0 ? List.of() : List.of(new Region.Limit(
                    method.where(at), seconds, module, method.line(at), Double.toString(value), value));
        }
        if (rest.size() > 1 || difference.constant() != 0) {
            return List.of();
        }
        double factor = seconds * Math.abs(difference.terms().get(rest.get(0)));
        String text = rest.get(0).text().replace('$', '.').replaceAll("[()]", "").replaceAll("[^A-Za-z0-9_.]", "_");
        int last = text.lastIndexOf('.', text.lastIndexOf('.') - 1);
        return List.of(new Region.Limit(method.where(at), factor, module, method.line(at), text.substring(last + 1), null));
    }
}
