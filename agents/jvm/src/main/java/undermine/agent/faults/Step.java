package undermine.agent.faults;

import java.util.Map;

/** A step of the plan: its fault and its index. */
final class Step {
    static final int ANYWHERE = -1;

    final int index;
    final Map<String, Object> fault;
    final String kind;
    /** The capability that the fault needs. A hold matches where the fault would that it stands for. */
    final String like;
    /** If the step is bound to a process or node: the number of this one, which the tool must have written. */
    final int boundTo;

    Step(int index, Map<String, Object> fault, int boundTo) {
        this.index = index;
        this.boundTo = boundTo;
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

    double number(String key, double otherwise) {
        Object value = fault.get(key);
        return value instanceof Number ? ((Number) value).doubleValue() : otherwise;
    }
}
