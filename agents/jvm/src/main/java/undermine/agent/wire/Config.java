package undermine.agent.wire;

import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import undermine.agent.process.ProcessIds;

/** The tool's configuration for the agent of one process: the JSON file that UNDERMINE_AGENT names. */
public final class Config {
    public static final int VERSION = 2;

    public final String node;
    public final String role;
    public final int incarnation;
    public final List<String> nodes;
    final String traceDir;
    public final String state;
    public final String socket;
    /** Shows the tool which node this is. */
    public final String token;
    public final String dir;
    public final List<String> paths;
    public final List<String> packages;
    public final Map<String, String> addresses;
    public final Map<String, String> hosts;
    public final String cgroup;
    public final String accelerator;
    /** The folder in which woven classes are kept; empty: none. */
    public final String woven;
    /** Families to observe in addition to files and network; null: all. */
    final List<String> observe;
    /** True if accesses to the heap are recorded. */
    public final boolean heap;
    /** True if tokens of the bytes that are moved are recorded. */
    public final boolean content;
    /** True if all fields that could be variables are sampled. */
    public final boolean survey;
    public final List<Map<String, Object>> operations;
    public final List<Map<String, Object>> variables;
    public final List<Map<String, Object>> steps;
    /** The pairs of operation and target whose contents are part of points; null: all contents are recorded, to learn them. */
    private final Set<List<String>> contents;
    /** How much faster than true time this process's clock runs, since `originNs` of the true clock. */
    public final long speed;
    public final long originNs;
    public final int pid;
    public final int parent;

    public Config(Map<String, Object> json, ProcessIds self) {
        pid = self.pid;
        parent = self.parent;
        node = text(json, "node");
        role = text(json, "role");
        incarnation = number(json, "incarnation");
        nodes = list(json, "nodes");
        traceDir = text(json, "trace_dir");
        state = text(json, "state");
        socket = text(json, "socket");
        token = text(json, "token");
        dir = text(json, "dir");
        paths = list(json, "paths");
        packages = list(json, "packages");
        addresses = map(json, "addresses");
        hosts = map(json, "hosts");
        cgroup = text(json, "cgroup");
        accelerator = text(json, "accelerator");
        woven = text(json, "woven");
        observe = json.containsKey("observe") ? Config.<String>list(json, "observe") : null;
        heap = Boolean.TRUE.equals(json.get("heap"));
        content = Boolean.TRUE.equals(json.get("content"));
        survey = Boolean.TRUE.equals(json.get("survey"));
        speed = json.get("speed") instanceof Number ? ((Number) json.get("speed")).longValue() : 1;
        originNs = json.get("origin_ns") instanceof Number ? ((Number) json.get("origin_ns")).longValue() : 0;
        operations = list(json, "operations");
        variables = list(json, "variables");
        steps = list(json, "steps");
        contents = json.get("contents") == null ? null
                : new HashSet<List<String>>(Config.<List<String>>list(json, "contents"));
        if (number(json, "version") != VERSION) {
            throw new IllegalArgumentException("protocol version " + json.get("version"));
        }
    }

    public boolean learnsContents() {
        return contents == null;
    }

    public boolean usesContent(String op, String target) {
        return contents == null || contents.contains(Arrays.asList(op, target));
    }

    public boolean observes(String family) {
        return observe == null || observe.contains(family);
    }

    /** True if a family is observed that needs the target's own classes to be woven. */
    public boolean observesCalls() {
        return observes("sync") || observes("handover") || observes("time") || heap;
    }

    /** The path of this process's files, without their suffix. */
    public String stem() {
        return traceDir + "/" + node + "." + incarnation + "." + pid;
    }

    private static String text(Map<String, Object> json, String key) {
        Object value = json.get(key);
        return value instanceof String ? (String) value : "";
    }

    private static int number(Map<String, Object> json, String key) {
        Object value = json.get(key);
        return value instanceof Number ? ((Number) value).intValue() : 0;
    }

    @SuppressWarnings("unchecked")
    private static <T> List<T> list(Map<String, Object> json, String key) {
        Object value = json.get(key);
        return value instanceof List ? (List<T>) value : Collections.<T>emptyList();
    }

    @SuppressWarnings("unchecked")
    private static Map<String, String> map(Map<String, Object> json, String key) {
        Object value = json.get(key);
        return value instanceof Map ? (Map<String, String>) value : Collections.<String, String>emptyMap();
    }
}
