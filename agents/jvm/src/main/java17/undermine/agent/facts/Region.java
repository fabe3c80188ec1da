package undermine.agent.facts;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A part of a method in which a slow call hurts.
 *
 * @param kind `critical`, `loop`, `hard`, `soft`, `timeout` or `lease`
 * @param key the lock, the awaited object or the clock: regions with the same key are about the same thing
 * @param where the file and line where it begins
 * @param ordinals the calls in it; null if it is the whole method
 * @param limits the time limits that a clock is compared with
 */
record Region(String kind, String key, String where, String why, MethodCode method, Set<Integer> ordinals, List<Limit> limits) {

    /**
     * A time limit of a comparison.
     *
     * @param factor the seconds in one unit of the value
     * @param text an expression; a number if it is known
     * @param known the value, or null
     */
    record Limit(String where, double factor, String module, int line, String text, Double known) {
        Map<String, Object> json() {
            Map<String, Object> found = new LinkedHashMap<>();
            found.put("where", where);
            found.put("factor", factor);
            found.put("module", module);
            found.put("line", line);
            found.put("text", text);
            found.put("known", known);
            return found;
        }
    }

    Region(String kind, String key, String where, String why, MethodCode method, Set<Integer> ordinals) {
        this(kind, key, where, why, method, ordinals, List.of());
    }

    /** False if no call is in it. */
    boolean matters() {
        return ordinals == null || !ordinals.isEmpty();
    }

    Map<String, Object> json() {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("kind", kind);
        found.put("key", key);
        found.put("where", where);
        found.put("why", why);
        found.put("function", method.id);
        if (ordinals != null) {
            found.put("calls", new ArrayList<>(ordinals));
        }
        List<Object> told = new ArrayList<>();
        limits.forEach(limit -> told.add(limit.json()));
        found.put("limits", told);
        return found;
    }
}
