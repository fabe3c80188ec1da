package undermine.agent.faults;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import undermine.agent.lib.JsonValues;
import undermine.agent.operations.Call;
import undermine.agent.operations.Operation;
import undermine.agent.operations.OperationListener;
import undermine.agent.wire.Config;
import undermine.agent.wire.SharedState;

/**
 * All operations by name, with the steps of this process compiled into them. It decides and never acts.
 *
 * An operation that no step asks about costs one look at an empty array. The facts about operations are those of
 * protocol/operations.toml; a test compares them.
 */
public final class DecisionTable {
    /**
     * The operations at which variables are read. A condition on variables is checked there too, unless it names an
     * operation.
     */
    static final List<String> READ_BEFORE = Arrays.asList(
            "net.connect", "net.send", "net.recv", "msg.send", "msg.recv", "raw.send", "raw.recv");
    static final List<String> READ_AFTER = Arrays.asList("net.recv", "msg.recv", "raw.recv");
    /** The operations before and after which a causal extent ends, so that variables are read there too. */
    private static final List<String> EXTENT_ENDS_BEFORE = Arrays.asList("poll", "queue.get", "thread.end");
    private static final List<String> EXTENT_ENDS_AFTER = Arrays.asList("handover.take");
    /** The operations by which a node reaches another one. */
    static final List<String> REACHING = Arrays.asList("net.connect", "net.send", "msg.send");
    /** The operations that move bytes of a connection. */
    static final List<String> TRANSFERS = Arrays.asList("net.send", "net.recv");
    /**
     * The operations whose data can be corrupted or dropped. Such faults act before the operation, whatever the trigger
     * says.
     */
    static final List<String> CORRUPTIBLE = Arrays.asList(
            "file.read", "file.write", "file.map_read", "file.map_write", "net.send", "net.recv", "msg.send", "msg.recv");
    static final List<String> DROPPABLE = Arrays.asList(
            "net.send", "net.recv", "msg.send", "msg.recv", "db.read", "db.write", "db.commit");
    /** Accesses to mapped files: the system can't answer them with an error. */
    static final List<String> MAPPED = Arrays.asList("file.map_read", "file.map_write");
    /** Faults that this agent or the tool can carry out. Steps of other kinds never match. */
    static final List<String> DOABLE = Arrays.asList(
            "crash", "reboot", "delay", "error", "drop", "corrupt", "pause", "partition", "power", "hold");

    private static final List<String> OPERATIONS = Arrays.asList(
            "file.open", "file.create", "file.read", "file.write", "file.map_read", "file.map_write", "file.fsync",
            "file.truncate", "file.close", "file.unlink", "file.mkdir", "file.rmdir", "file.stat", "file.list",
            "file.rename", "net.connect", "net.accept", "net.send", "net.recv", "net.close", "msg.send", "msg.recv",
            "db.read", "db.write", "db.commit");
    private static final List<String> OBSERVED = Arrays.asList(
            "thread.start", "thread.end", "thread.die", "lock.acquire", "lock.release", "cond.wait", "cond.notify",
            "event.wait", "event.set", "sem.acquire", "sem.release", "barrier.wait", "queue.put", "queue.get",
            "future.wait", "future.set", "join", "handover.give", "handover.take", "poll", "clock", "sleep", "timeout",
            "raw.send", "raw.recv", "db.got", "variable.sample", "heap.read", "heap.write",
            "content.tokens");
    private static final Set<String> KEYS = new HashSet<String>(
            Arrays.asList("op", "loc", "node", "role", "target", "stack", "content"));
    static final String STATE = "state";

    final SharedState state;
    final String node;
    final String role;
    private final int pid;
    private final List<String> nodes;
    private final Map<String, Operation> operations = new LinkedHashMap<String, Operation>();

    public DecisionTable(SharedState state, Config config) {
        this.state = state;
        this.node = config.node;
        this.role = config.role;
        this.pid = config.pid;
        this.nodes = config.nodes;
        for (String name : OPERATIONS) {
            operations.put(name, new Operation(name, true));
        }
        for (String name : OBSERVED) {
            operations.put(name, new Operation(name, false));
        }
        for (Object description : config.steps) {
            add(JsonValues.map(description));
        }
    }

    /** The operation of this name, or null. */
    public Operation operation(String name) {
        return operations.get(name);
    }

    /** Mark the operations at which variables are read. */
    public void readVariables() {
        for (Operation operation : operations.values()) {
            String name = operation.name;
            operation.readsBefore = READ_BEFORE.contains(name) || EXTENT_ENDS_BEFORE.contains(name);
            operation.readsAfter = READ_AFTER.contains(name) || EXTENT_ENDS_AFTER.contains(name);
        }
    }

    /** Count one occurrence; returns the trigger parts that must be claimed now. */
    public List<TriggerPart> reached(OperationListener[] listeners, Call call) {
        if (listeners.length == 0 || state.healed()) {
            return Collections.emptyList();
        }
        List<TriggerPart> found = Collections.emptyList();
        for (OperationListener listener : listeners) {
            if (!listener.reached(state, call)) {
                continue;
            }
            TriggerPart part = (TriggerPart) listener;
            if (part.isFirst) {
                part.first.raise(state);
            } else {
                found = found.isEmpty() ? new ArrayList<TriggerPart>() : found;
                found.add(part);
            }
        }
        return found;
    }

    static boolean isTransfer(String name) {
        return TRANSFERS.contains(name);
    }

    /** Methods of the target that the user named: this agent has no other operations of these families. */
    static boolean isLogical(String name) {
        return name.startsWith("msg.") || name.startsWith("db.");
    }

    private void add(Map<String, Object> description) {
        int index = JsonValues.number(description.get("step"));
        if (!state.hasStep(index)) {
            throw new IllegalArgumentException("the state file has no room for step " + index);
        }
        Step step = new Step(index, JsonValues.map(description.get("fault")), boundTo(description.get("same")));
        addPair(step, "until", JsonValues.map(description.get("until")));
        addPair(step, "second", description);
    }

    private int boundTo(Object same) {
        return "process".equals(same) ? pid : "node".equals(same) ? nodes.indexOf(node) + 1 : Step.ANYWHERE;
    }

    /** The second part comes first, so that one occurrence never counts for both. */
    private void addPair(Step step, String half, Map<String, Object> pair) {
        boolean needsFirst = !JsonValues.map(pair.get("first")).isEmpty();
        FirstSeen first = needsFirst ? firstSeen(step, half.equals("until"), pair.get("together")) : null;
        if (!JsonValues.map(pair.get("second")).isEmpty()) {
            addPart(new TriggerPart(step, half, false, first, JsonValues.map(pair.get("second")), nodes));
        }
        if (needsFirst) {
            addPart(new TriggerPart(step, half, true, first, JsonValues.map(pair.get("first")), nodes));
        }
    }

    private FirstSeen firstSeen(Step step, boolean isUntil, Object together) {
        if ("process".equals(together)) {
            return FirstSeen.inThisProcess();
        }
        return FirstSeen.at("node".equals(together)
                ? state.firstOfNodeAt(step.index, isUntil, nodes.indexOf(node), nodes.size())
                : state.firstAt(step.index, isUntil));
    }

    private void addPart(TriggerPart part) {
        if (isElsewhere(part, "node", node) || isElsewhere(part, "role", role)) {
            return;
        }
        if (!KEYS.containsAll(part.match.keySet()) || !isKnown(part)) {
            return; // a key that this agent doesn't know never matches
        }
        part.match.put("node", node);
        part.match.put("role", role);
        for (Operation operation : operations.values()) {
            for (String place : part.placesAt(operation)) {
                operation.add(part, place.equals(TriggerPart.BEFORE));
            }
        }
    }

    /** True if the agent knows the values of all kept keys. */
    private static boolean isKnown(TriggerPart part) {
        for (String key : part.keys) {
            if (!KEYS.contains(key) && !(key.equals(STATE) && part.hasState())) {
                return false;
            }
        }
        return true;
    }

    private static boolean isElsewhere(TriggerPart part, String key, String here) {
        return part.match.containsKey(key) && !here.equals(part.match.get(key));
    }
}
