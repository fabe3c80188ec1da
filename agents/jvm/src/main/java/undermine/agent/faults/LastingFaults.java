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
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;
import undermine.agent.wire.SharedState;
import undermine.agent.wire.ToolLink;

/** The faults in force. The generation in the shared state tells when they have changed. */
public final class LastingFaults {
    /** Operations that ENOSPC meets; other disk errors meet all operations that reach the device. */
    private static final List<String> NEEDS_SPACE = Arrays.asList(
            "file.write", "file.create", "file.mkdir", "db.write", "db.commit");
    /** Closing always works, and mapped memory can't answer with an error. */
    private static final List<String> SPARED = Arrays.asList(
            "file.close", "file.stat", "net.close", "file.map_read", "file.map_write");
    private static final String PEER = "peer:";

    private final SharedState state;
    private final ToolLink link;
    private final Sockets sockets;
    /** The steps whose connections have been reset. */
    private final Set<Object> resets = new HashSet<Object>();
    private volatile int generation;
    private volatile List<Map<String, Object>> entries = Collections.emptyList();
    private volatile boolean hasBlackHoles;

    public LastingFaults(SharedState state, ToolLink link, Sockets sockets) {
        this.state = state;
        this.link = link;
        this.sockets = sockets;
    }

    /** Take over the faults that the tool reported; `generation` was read before the tool was asked. */
    public synchronized void welcome(int generation, Map<String, Object> answer) {
        if (generation < this.generation) {
            return; // another thread has a newer answer
        }
        List<Map<String, Object>> found = new ArrayList<Map<String, Object>>();
        if (answer != null) {
            for (Object each : JsonValues.list(answer.get("lasting"))) {
                Map<String, Object> entry = JsonValues.map(each);
                if (!"reset".equals(entry.get("kind"))) {
                    found.add(entry);
                } else if (resets.add(entry.get("step"))) {
                    sockets.resetAll(JsonValues.list(entry.get("peers")));
                }
            }
        }
        // Connections are reset before any operation sees that their partition has ended.
        this.entries = found;
        this.generation = generation;
    }

    /** True if any fault is in force. Asks the tool if something has changed; the caller has set `busy`. */
    public boolean any() {
        if (state.generation() != generation) {
            refresh();
        }
        return hasBlackHoles || !entries.isEmpty();
    }

    void setBlackHoles(boolean areThere) {
        hasBlackHoles = areThere;
    }

    private void refresh() {
        int now = state.generation();
        Map<String, Object> request = new LinkedHashMap<String, Object>();
        request.put("type", "lasting");
        Map<String, Object> answer = link.ask(request);
        if (answer != null && "lasting".equals(answer.get("type"))) {
            welcome(now, answer);
        } else {
            generation = now;
        }
    }

    /** Add an error of this agent that lasts from now on. */
    synchronized void add(int step, String error, String scope, Subject subject) {
        Map<String, Object> entry = new LinkedHashMap<String, Object>();
        entry.put("step", (long) step);
        entry.put("kind", "error");
        entry.put("error", error);
        entry.put("scope", scope);
        entry.put("value", scope.equals("file") ? subject.resource : scope.equals("peer") ? subject.target : "");
        List<Map<String, Object>> longer = new ArrayList<Map<String, Object>>(entries);
        longer.add(entry);
        entries = longer;
    }

    /** The error with which a lasting fault answers this operation, or null. */
    public String errorOf(Operation operation, Subject subject) {
        String op = operation.name;
        List<Map<String, Object>> now = entries;
        if (now.isEmpty() || isHealed() || SPARED.contains(op)) {
            return null;
        }
        for (Map<String, Object> entry : now) {
            String name = isPartition(entry) ? errorByPartition(entry, op, subject) : errorBy(entry, op, subject);
            if (name != null) {
                return name;
            }
        }
        return null;
    }

    /** True if a partition with errors cuts off what this side sends to the peer. */
    boolean refusesSends(Subject subject) {
        for (Map<String, Object> entry : entries) {
            if (isPartition(entry) && "error".equals(entry.get("loss")) && cuts(entry, "net.send", subject)) {
                return !isHealed();
            }
        }
        return false;
    }

    /** True if everything is healed, and connections have been reset for that. */
    private boolean isHealed() {
        return state.healed() && state.generation() == generation;
    }

    /** True if a silent partition holds back the data of this operation. */
    boolean holds(Operation operation, Subject subject) {
        List<Map<String, Object>> now = entries;
        if (now.isEmpty() || isHealed()) {
            return false;
        }
        for (Map<String, Object> entry : now) {
            if (isPartition(entry) && "silent".equals(entry.get("loss")) && cuts(entry, operation.name, subject)) {
                return true;
            }
        }
        return false;
    }

    private static boolean isPartition(Map<String, Object> entry) {
        return "partition".equals(entry.get("kind"));
    }

    private static String errorByPartition(Map<String, Object> entry, String op, Subject subject) {
        boolean isConnect = op.equals("net.connect");
        if (!cuts(entry, op, subject) || !isConnect && !"error".equals(entry.get("loss"))) {
            return null;
        }
        return isConnect ? "EHOSTUNREACH" : "ECONNRESET";
    }

    /** True if this partition affects this operation. Connecting needs both directions. */
    private static boolean cuts(Map<String, Object> entry, String op, Subject subject) {
        if (!subject.target.startsWith(PEER)) {
            return false;
        }
        if (!JsonValues.list(entry.get("peers")).contains(subject.target.substring(PEER.length()))) {
            return false;
        }
        boolean isOut = Boolean.TRUE.equals(entry.get("out"));
        boolean isIn = Boolean.TRUE.equals(entry.get("in"));
        switch (op) {
            case "net.connect":
                return isOut || isIn;
            case "net.send":
                return isOut;
            case "net.recv":
                return isIn;
            default:
                return false;
        }
    }

    private static String errorBy(Map<String, Object> entry, String op, Subject subject) {
        String error = JsonValues.text(entry.get("error"));
        if (!"error".equals(entry.get("kind")) || "ENOSPC".equals(error) && !NEEDS_SPACE.contains(op)) {
            return null;
        }
        return isWithin(JsonValues.text(entry.get("scope")), JsonValues.text(entry.get("value")), op, subject) ? error : null;
    }

    private static boolean isWithin(String scope, String value, String op, Subject subject) {
        boolean isOfFile = op.startsWith("file.");
        if ("peer".equals(scope)) {
            return !isOfFile && subject.target.equals(value);
        }
        if (!isOfFile && !op.startsWith("db.")) {
            return false;
        }
        return "disk".equals(scope) ? subject.onDisk : isPartOf(value, subject.resource);
    }

    /** True for the path itself and for both paths of a rename. */
    private static boolean isPartOf(String path, String resource) {
        if (resource.equals(path)) {
            return true;
        }
        int from = 0;
        for (int at = resource.indexOf(" -> "); at >= 0; at = resource.indexOf(" -> ", from)) {
            if (resource.substring(from, at).equals(path)) {
                return true;
            }
            from = at + 4;
        }
        return from > 0 && resource.substring(from).equals(path);
    }
}
