package undermine.agent.facts;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import undermine.agent.values.AbstractValue;
import undermine.agent.values.Origin;
import undermine.agent.values.Sum;

/**
 * Finds barriers: the code before a signal that somebody waits for. A barrier is hard if the wait has no time limit, else soft.
 *
 * A wait and a signal belong together if they are on the same field, or on objects of the same class of the target. The method
 * of a thread that is joined is waited for as a whole.
 */
final class Barriers {
    private static final String JUC = "java/util/concurrent/";
    private static final String CONDITION = JUC + "locks/Condition";
    private static final String QUEUE = JUC + "BlockingQueue";
    private static final String SEMAPHORE = JUC + "Semaphore";
    private static final String FUTURE = JUC + "CompletableFuture";
    private static final String THREAD = "java/lang/Thread";
    /** A type, and its methods that wait. */
    private static final String[][] WAITS = {
        {CONDITION, "await", "awaitNanos", "awaitUntil", "awaitUninterruptibly"},
        {JUC + "CountDownLatch", "await"},
        {QUEUE, "take", "poll"},
        {SEMAPHORE, "acquire", "acquireUninterruptibly", "tryAcquire"},
        {FUTURE, "get", "join"},
        {JUC + "Future", "get"},
    };
    /** A type, and its methods that end waits. */
    private static final String[][] SIGNALS = {
        {CONDITION, "signal", "signalAll"},
        {JUC + "CountDownLatch", "countDown"},
        {QUEUE, "put", "offer", "add"},
        {SEMAPHORE, "release"},
        {FUTURE, "complete", "completeExceptionally"},
    };
    /** A method with at most this many calls that signals counts as the signal in its callers. */
    private static final int SMALL = 12;

    /** A wait. Its limit is empty if it has none. */
    private record Wait(MethodCode.Call call, String limit) {
    }

    private final TargetClasses classes;
    private final CallGraph graph;
    private final Map<String, List<Wait>> waits = new HashMap<>();
    private final Map<String, List<MethodCode.Call>> signals = new TreeMap<>();
    private final List<Region> found = new ArrayList<>();

    Barriers(TargetClasses classes, CallGraph graph) {
        this.classes = classes;
        this.graph = graph;
    }

    List<Region> regions() {
        for (MethodCode method : classes.methods) {
            for (MethodCode.Call call : method.calls) {
                if (call.node() != null && !call.isStatic()) {
                    read(call);
                }
            }
        }
        signals.forEach((key, calls) -> {
            Wait hard = first(key, false);
            Wait soft = first(key, true);
            for (MethodCode.Call signal : calls) {
                if (hard != null) {
                    before("hard", key, signal, hard);
                }
                if (soft != null) {
                    before("soft", key, signal, soft);
                }
            }
        });
        return found;
    }

    private Wait first(String key, boolean isLimited) {
        for (Wait wait : waits.getOrDefault(key, List.of())) {
            if (wait.limit.isEmpty() != isLimited) {
                return wait;
            }
        }
        return null;
    }

    // --- waits and signals

    private void read(MethodCode.Call call) {
        String name = call.node().name;
        String owner = call.node().owner;
        if (name.equals("wait") && call.node().desc.endsWith(")V") && call.node().desc.matches("\\(J?I?\\)V")) {
            String limit = call.node().desc.equals("()V") || isZero(call.argument(0)) ? "" : text(call.argument(0), "ms");
            addWait(call, "monitor ", limit);
        } else if ((name.equals("notify") || name.equals("notifyAll")) && call.node().desc.equals("()V")) {
            keys(call, "monitor ").forEach(key -> signals.computeIfAbsent(key, each -> new ArrayList<>()).add(call));
        } else if (name.equals("join") && classes.hierarchy.is(owner, THREAD)) {
            join(call);
        } else if (isListed(WAITS, owner, name) && !isAtOnce(call)) {
            addWait(call, "", limit(call));
        } else if (isListed(SIGNALS, owner, name) && !isOwnPermit(call)) {
            keys(call, "").forEach(key -> signals.computeIfAbsent(key, each -> new ArrayList<>()).add(call));
        }
    }

    private boolean isListed(String[][] rows, String owner, String name) {
        for (String[] row : rows) {
            for (int i = 1; i < row.length; i++) {
                if (row[i].equals(name) && owner.startsWith(JUC) && classes.hierarchy.is(owner, row[0])) {
                    return true;
                }
            }
        }
        return false;
    }

    /** True for `poll()` and `tryAcquire()`, which never wait. */
    private static boolean isAtOnce(MethodCode.Call call) {
        String name = call.node().name;
        return (name.equals("poll") || name.equals("tryAcquire")) && !call.node().desc.contains("TimeUnit");
    }

    /** True if the method takes the permit itself that it releases: then it is a lock. */
    private boolean isOwnPermit(MethodCode.Call call) {
        return call.node().name.equals("release") && call.method().calls.stream().anyMatch(
                each -> each.node() != null && each.node().name.toLowerCase().contains("acquire")
                        && each.receiver().key().equals(call.receiver().key()));
    }

    private void addWait(MethodCode.Call call, String prefix, String limit) {
        keys(call, prefix).forEach(key -> waits.computeIfAbsent(key, each -> new ArrayList<>()).add(new Wait(call, limit)));
    }

    /** The names by which the awaited object may be known elsewhere: its field, or its class if that is the target's. */
    private List<String> keys(MethodCode.Call call, String prefix) {
        AbstractValue object = call.receiver();
        List<String> keys = new ArrayList<>();
        for (Origin origin : object.origins()) {
            if (origin.kind() == Origin.Kind.FIELD) {
                keys.add(prefix + origin.text());
            }
        }
        if (classes.hierarchy.own(object.type()) != null) {
            keys.add(prefix + "of " + object.type().replace('/', '.'));
        }
        return keys;
    }

    private static boolean isZero(AbstractValue value) {
        return value.sums().size() == 1 && value.sums().contains(Sum.of(0));
    }

    private static String limit(MethodCode.Call call) {
        String descriptor = call.node().desc;
        boolean isOfPermits = descriptor.startsWith("(IJ");
        if (descriptor.contains("JLjava/util/concurrent/TimeUnit;")) {
            String unit = call.argument(isOfPermits ? 2 : 1).key();
            return text(call.argument(isOfPermits ? 1 : 0), unit.substring(unit.lastIndexOf('.') + 1).toLowerCase());
        }
        return descriptor.startsWith("(J)") ? text(call.argument(0), "ns") : descriptor.contains("Date") ? "a date" : "";
    }

    private static String text(AbstractValue value, String unit) {
        Sum sum = value.sums().size() == 1 ? value.sums().iterator().next() : null;
        if (sum != null && sum.isConstant()) {
            return Long.toString((long) sum.constant()) + " " + unit;
        }
        if (sum != null && sum.terms().size() == 1 && sum.constant() == 0) {
            String name = sum.terms().keySet().iterator().next().text();
            return name.substring(name.lastIndexOf('.', name.lastIndexOf('.') - 1) + 1) + " " + unit;
        }
        return "some " + (unit.isEmpty() ? "time" : unit);
    }

    // --- regions

    private void before(String kind, String key, MethodCode.Call signal, Wait wait) {
        MethodCode method = signal.method();
        if (wait.call.method() == method) { // one thread does both, so it waits for another signal
            return;
        }
        String limit = wait.limit.isEmpty() ? "without a limit" : "at most " + wait.limit;
        String why = "before " + Locking.named(signal.receiver()) + "." + signal.node().name + "() in " + method.shortName()
                + ", which " + wait.call.method().shortName() + " (" + wait.call.where() + ") waits for, " + limit;
        found.add(new Region(kind, key, signal.where(), why, method, ordinalsBefore(method, signal.at())));
        if (method.calls.size() <= SMALL) {
            for (CallGraph.Caller caller : graph.callers(method)) {
                MethodCode above = caller.call().method();
                if (caller.alternatives() == 1 && above != method && above != wait.call.method()) {
                    found.add(new Region(kind, key, signal.where(), why + ", called by " + above.shortName(), above,
                            ordinalsBefore(above, caller.call().at())));
                }
            }
        }
    }

    private static Set<Integer> ordinalsBefore(MethodCode method, int at) {
        BitSet before = method.flow.before(at, new BitSet());
        before.clear(at);
        return method.ordinals(before);
    }

    // --- threads

    private void join(MethodCode.Call call) {
        String limit = call.node().desc.equals("()V") || isZero(call.argument(0)) ? "" : text(call.argument(0), "ms");
        for (MethodCode run : runs(call)) {
            if (isEndless(run)) { // it is joined when the program ends, not for its result
                continue;
            }
            String how = limit.isEmpty() ? "without a limit" : "for at most " + limit;
            String why = run.shortName() + " runs concurrently, and " + call.method().shortName() + " waits " + how + " for its end";
            found.add(new Region(limit.isEmpty() ? "hard" : "soft", "end of " + run.id, call.where(), why, run, null));
        }
    }

    /** The methods that the joined thread runs. */
    private Set<MethodCode> runs(MethodCode.Call call) {
        Set<MethodCode> run = new HashSet<>();
        MethodCode own = classes.resolved(call.receiver().type(), "run", "()V");
        if (own != null) {
            run.add(own);
        }
        for (Origin origin : call.receiver().origins()) {
            if (origin.kind() == Origin.Kind.NEW) {
                runsOf(call.method(), origin.at(), run);
            } else if (origin.kind() == Origin.Kind.FIELD) {
                for (TargetClasses.Store store : classes.stores.getOrDefault(origin.text(), List.of())) {
                    store.value().origins().stream().filter(each -> each.kind() == Origin.Kind.NEW)
                            .forEach(each -> runsOf(store.method(), each.at(), run));
                }
            }
        }
        return run;
    }

    private void runsOf(MethodCode method, int createdAt, Set<MethodCode> run) {
        for (MethodCode.Call call : method.calls) {
            if (call.node() != null && call.node().name.equals("<init>")
                    && call.receiver().origins().stream().anyMatch(each -> each.at() == createdAt)) {
                for (AbstractValue value : call.values()) {
                    for (Origin origin : value.origins()) {
                        MethodCode found = origin.kind() == Origin.Kind.LAMBDA ? graph.lambda(method, origin.at())
                                : origin.kind() == Origin.Kind.NEW ? classes.resolved(value.type(), "run", "()V") : null;
                        if (found != null) {
                            run.add(found);
                        }
                    }
                }
            }
        }
    }

    private static boolean isEndless(MethodCode method) {
        return method.calls.stream().anyMatch(call -> method.flow.isInLoop(call.at()));
    }
}
