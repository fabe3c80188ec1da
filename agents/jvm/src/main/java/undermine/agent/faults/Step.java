package undermine.agent.faults;

import java.util.Map;

/** A fault and its number. */
final class Step {
    final int index;
    final Map<String, Object> fault;
    final String kind;
    /** The word for it in the introduction of an agent that can do it; a hold is met where what it stands for would be. */
    final String like;

    Step(int index, Map<String, Object> fault) {
        this.index = index;
        this.fault = fault;
        this.kind = text("fault", "");
        this.like = text("of", kind.equals("delay") && isOfOperation() ? "delay-operation" : kind);
    }

    boolean isOfOperation() {
        return text("mode", "").equals("operation");
    }

    String text(String key, String otherwise) {
        Object value = fault.get(key);
        return value instanceof String ? (String) value : otherwise;
    }

    double number(String key) {
        Object value = fault.get(key);
        return value instanceof Number ? ((Number) value).doubleValue() : 0;
    }
}
