package undermine.agent.wire;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import undermine.agent.lib.Json;
import undermine.agent.lib.JsonValues;

/**
 * Talks to the tool: a hello, a request, an answer; ten seconds at most.
 *
 * Requests are rare, so no connection is kept open. Every failure counts as the answer null, and the node continues. The
 * caller has set `busy`.
 */
public class ToolLink {
    static final int TIMEOUT_MS = 10000;

    public final Map<String, Object> hello;
    private final String path;
    private volatile boolean refused;
    private Method talk;

    public ToolLink(String socketPath, Map<String, Object> hello) {
        this.path = socketPath;
        this.hello = hello;
    }

    /** Say hello; returns the welcome, or null. */
    public Map<String, Object> welcome() {
        Map<String, Object> answer = exchange(Json.write(hello) + "\n", 1);
        boolean isWelcome = answer != null && "welcome".equals(answer.get("type"));
        refused = answer != null && !isWelcome;
        return isWelcome ? answer : null;
    }

    /** Send a request and wait for its answer; null if there is none. */
    public Map<String, Object> ask(Map<String, Object> request) {
        return refused ? null : exchange(Json.write(hello) + "\n" + Json.write(request) + "\n", 2);
    }

    private Map<String, Object> exchange(String lines, int answers) {
        boolean wasInterrupted = Thread.interrupted(); // an interrupt would close the connection
        try {
            String answer = talk(lines, answers);
            Object found = answer == null ? null : Json.read(answer);
            return found instanceof Map ? JsonValues.map(found) : null;
        } catch (ReflectiveOperationException | IllegalArgumentException | LinkageError failure) {
            return null;
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Return the last answer. By reflection: Java 8 has no Unix sockets. */
    private String talk(String lines, int answers) throws ReflectiveOperationException {
        Method method = talk;
        if (method == null) {
            Class<?> socket = Class.forName("undermine.agent.wire.UnixSocket");
            method = socket.getDeclaredMethod("talk", String.class, String.class, int.class, int.class);
            method.setAccessible(true);
            talk = method;
        }
        try {
            return (String) method.invoke(null, path, lines, answers, TIMEOUT_MS);
        } catch (InvocationTargetException failure) {
            return null;
        }
    }
}
