package undermine.agent;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * All operations by name, with the steps of this process compiled into them. Decides; never acts.
 *
 * An operation nobody asks about costs one look at an empty array.
 */
final class Table {
    /** Where a condition on variables is looked at, unless it names the operation; and where variables are read. */
    static final List<String> SENDS = Arrays.asList("net.send", "msg.send");
    static final List<String> RECEIVES = Arrays.asList("net.recv", "msg.recv");
    /** Faults that act on the data's way come before the operation whatever was asked for; and where they can. */
    static final List<String> CORRUPTIBLE = Arrays.asList(
            "file.read", "file.write", "file.map_read", "file.map_write", "net.send", "net.recv", "msg.send", "msg.recv");
    static final List<String> DROPPABLE = Arrays.asList(
            "net.send", "net.recv", "msg.send", "msg.recv", "db.read", "db.write", "db.commit");
    /** Accesses to the memory that a file is mapped to: the system has no error to answer them with. */
    static final List<String> MAPPED = Arrays.asList("file.map_read", "file.map_write");
    /** What this agent or the tool can carry out: steps of other kinds count nowhere. */
    static final List<String> DOABLE = Arrays.asList(
            "crash", "reboot", "delay", "error", "pause", "partition", "hold");

    private static final List<String> OPERATIONS = Arrays.asList(
            "file.open", "file.create", "file.read", "file.write", "file.map_read", "file.map_write", "file.fsync",
            "file.truncate", "file.close", "file.unlink", "file.mkdir", "file.rmdir", "file.stat", "file.list",
            "file.rename", "net.connect", "net.accept", "net.send", "net.recv", "net.close", "msg.send", "msg.recv",
            "db.read", "db.write", "db.commit");
    private static final List<String> OBSERVED = Arrays.asList(
            "process.start", "process.wait", "thread.start", "thread.end", "thread.die", "task.start", "task.end",
            "task.die", "lock.acquire", "lock.release", "cond.wait", "cond.notify", "event.wait", "event.set",
            "sem.acquire", "sem.release", "barrier.wait", "queue.put", "queue.get", "future.wait", "future.set", "join",
            "handover.give", "handover.take", "poll", "clock", "sleep", "timeout", "raw.send", "raw.recv");
    private static final Set<String> KEYS = new HashSet<String>(
            Arrays.asList("op", "loc", "node", "role", "target", "stack"));

    final State state;
    final String node;
    final String role;
    private final Map<String, Operation> operations = new LinkedHashMap<String, Operation>();

    Table(State state, String node, String role, List<?> steps) {
        this.state = state;
        this.node = node;
        this.role = role;
        for (String name : OPERATIONS) {
            operations.put(name, new Operation(name, true));
        }
        for (String name : OBSERVED) {
            operations.put(name, new Operation(name, false));
        }
        for (Object description : steps) {
            add(map(description));
        }
    }

    /** The operation of this name; null if there is none. */
    Operation operation(String name) {
        return operations.get(name);
    }

    /** Put something before all halves where variables are read; its `reached` is called as theirs are. */
    void lookFirst(Half watcher) {
        for (String name : SENDS) {
            operations.get(name).add(watcher, true, true);
        }
        for (String name : RECEIVES) {
            operations.get(name).add(watcher, false, true);
        }
    }

    /** Count one occurrence; returns the halves that are to be claimed now. */
    List<Half> reached(Half[] halves, Call call) {
        if (halves.length == 0 || state.healed()) {
            return Collections.emptyList();
        }
        List<Half> found = Collections.emptyList();
        for (Half half : halves) {
            if (!half.reached(state, call)) {
                continue;
            }
            if (half.isFirst) {
                state.raise(half.firstAt);
            } else {
                found = found.isEmpty() ? new ArrayList<Half>() : found;
                found.add(half);
            }
        }
        return found;
    }

    static boolean isTransfer(String name) {
        return name.equals("net.send") || name.equals("net.recv");
    }

    private void add(Map<String, Object> description) {
        int index = number(description.get("step"));
        if (!state.hasStep(index)) {
            throw new IllegalArgumentException("the state file has no room for step " + index);
        }
        Step step = new Step(index, map(description.get("fault")));
        addPair(step, "until", map(description.get("until")));
        addPair(step, "second", description);
    }

    /** The second half is looked at first, so that one occurrence is never both. */
    private void addPair(Step step, String part, Map<String, Object> pair) {
        boolean needsFirst = !map(pair.get("first")).isEmpty();
        if (!map(pair.get("second")).isEmpty()) {
            addHalf(new Half(step, part, false, needsFirst, map(pair.get("second"))));
        }
        if (needsFirst) {
            addHalf(new Half(step, part, true, true, map(pair.get("first"))));
        }
    }

    private void addHalf(Half half) {
        if (isElsewhere(half, "node", node) || isElsewhere(half, "role", role)) {
            return;
        }
        if (!KEYS.containsAll(half.match.keySet()) || !KEYS.containsAll(half.keys)) {
            return; // a key this agent does not know can never be equal
        }
        half.match.put("node", node);
        half.match.put("role", role);
        for (Operation operation : operations.values()) {
            String place = half.placeAt(operation);
            if (!place.equals(Half.NOWHERE)) {
                operation.add(half, place.equals(Half.BEFORE), false);
            }
        }
    }

    private static boolean isElsewhere(Half half, String key, String here) {
        return half.match.containsKey(key) && !here.equals(half.match.get(key));
    }

    // --- what JSON gave us

    @SuppressWarnings("unchecked")
    static Map<String, Object> map(Object value) {
        return value instanceof Map ? (Map<String, Object>) value : Collections.<String, Object>emptyMap();
    }

    static List<?> list(Object value) {
        return value instanceof List ? (List<?>) value : Collections.emptyList();
    }

    static String text(Object value) {
        return value instanceof String ? (String) value : null;
    }

    static int number(Object value) {
        if (!(value instanceof Number)) {
            throw new IllegalArgumentException("not a number: " + value);
        }
        return ((Number) value).intValue();
    }
}
