package undermine.agent;

import java.util.Collections;
import java.util.List;
import java.util.Map;

/** What the tool tells the agent of a process: the JSON file that UNDERMINE_AGENT names. */
final class Config {
    static final int VERSION = 2;

    final String node;
    final String role;
    final int incarnation;
    final List<String> nodes;
    final String traceDir;
    final String state;
    final String socket;
    final String dir;
    final List<String> paths;
    final List<String> packages;
    final Map<String, String> addresses;
    final Map<String, String> hosts;
    final String cgroup;
    final String accelerator;
    /** Where changed classes are kept, or nothing. */
    final String woven;
    /** Families to observe besides files and network; null: all. */
    final List<String> observe;
    final List<Map<String, Object>> operations;
    final List<Map<String, Object>> variables;
    final List<Map<String, Object>> steps;
    final int pid;
    final int parent;

    Config(Map<String, Object> json, Self self) {
        pid = self.pid;
        parent = self.parent;
        node = text(json, "node");
        role = text(json, "role");
        incarnation = number(json, "incarnation");
        nodes = list(json, "nodes");
        traceDir = text(json, "trace_dir");
        state = text(json, "state");
        socket = text(json, "socket");
        dir = text(json, "dir");
        paths = list(json, "paths");
        packages = list(json, "packages");
        addresses = map(json, "addresses");
        hosts = map(json, "hosts");
        cgroup = text(json, "cgroup");
        accelerator = text(json, "accelerator");
        woven = text(json, "woven");
        observe = json.containsKey("observe") ? Config.<String>list(json, "observe") : null;
        operations = list(json, "operations");
        variables = list(json, "variables");
        steps = list(json, "steps");
        if (number(json, "version") != VERSION) {
            throw new IllegalArgumentException("protocol version " + json.get("version"));
        }
    }

    boolean observes(String family) {
        return observe == null || observe.contains(family);
    }

    /** True if a family is observed for which the target's own classes are woven. */
    boolean observesCalls() {
        return observes("sync") || observes("handover") || observes("time");
    }

    /** Where files of this process are put, without their ending. */
    String stem() {
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
