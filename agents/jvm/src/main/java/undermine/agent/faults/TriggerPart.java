package undermine.agent.faults;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import undermine.agent.lib.JsonValues;
import undermine.agent.operations.Call;
import undermine.agent.operations.Operation;
import undermine.agent.operations.OperationListener;
import undermine.agent.wire.SharedState;

/** One occurrence that a trigger waits for. A step's start (`second`) and its end (`until`) each have one or two of them. */
final class TriggerPart extends OperationListener {
    static final String BEFORE = "before";
    static final String AFTER = "after";
    private static final String PEER = "peer:";
    private static final List<String> NOWHERE = Collections.emptyList();

    final Step step;
    /** `second` or `until`: the claim's `half`. */
    final String half;
    final boolean isFirst;
    /** Whether the first occurrence was seen; null if there is only one. */
    final FirstSeen first;
    final Map<String, Object> match;
    final List<String> keys;
    private final String op;
    private final String loc;
    private final String target;
    private final String stack;
    private final String content;
    private final String place;
    private final int nth;
    private final Set<List<String>> seen;
    /** The slots of the variables whose values, or how two of them compare, are part of the point. */
    private final List<List<Integer>> state;
    private final List<Comparison> when;
    /** If not empty, only messages between these nodes and the other ones count. */
    private final Set<String> involved;
    private final List<String> nodes;
    private final AtomicInteger counter = new AtomicInteger();
    private final boolean acts;
    /** True if the fault itself counts occurrences, when it sees the data that it acts on. */
    final boolean isLate;
    private final int wanted;

    TriggerPart(Step step, String half, boolean isFirst, FirstSeen first, Map<String, Object> description,
            List<String> nodes) {
        this.step = step;
        this.half = half;
        this.isFirst = isFirst;
        this.first = first;
        this.match = new HashMap<String, Object>(JsonValues.map(description.get("match")));
        this.op = JsonValues.text(match.get("op"));
        this.loc = JsonValues.text(match.get("loc"));
        this.target = JsonValues.text(match.get("target"));
        this.stack = JsonValues.text(match.get("stack"));
        this.content = JsonValues.text(match.get("content"));
        String given = JsonValues.text(description.get("place"));
        this.place = given == null ? BEFORE : given;
        this.nth = description.containsKey("nth") ? JsonValues.number(description.get("nth")) : 1;
        Map<String, Object> unseen = JsonValues.map(description.get("unseen"));
        this.keys = texts(unseen.get("keys"));
        this.seen = points(unseen.get("seen"));
        this.state = slots(unseen.get(DecisionTable.STATE));
        this.when = Comparison.all(description.get("when"));
        this.involved = new HashSet<String>(texts(description.get("involves")));
        this.nodes = nodes;
        boolean isUntil = half.equals("until");
        this.acts = half.equals("second") && !isFirst;
        this.isLate = acts && step.kind.equals("corrupt");
        this.wanted = isUntil ? SharedState.FIRED : SharedState.ARMED;
    }

    private static List<String> texts(Object values) {
        List<String> found = new ArrayList<String>();
        for (Object value : JsonValues.list(values)) {
            found.add(JsonValues.text(value));
        }
        return found;
    }

    private static Set<List<String>> points(Object values) {
        Set<List<String>> found = new HashSet<List<String>>();
        for (Object value : JsonValues.list(values)) {
            found.add(texts(value));
        }
        return found;
    }

    private static List<List<Integer>> slots(Object values) {
        List<List<Integer>> found = new ArrayList<List<Integer>>();
        for (Object value : JsonValues.list(values)) {
            List<Integer> part = new ArrayList<Integer>();
            for (Object slot : JsonValues.list(value)) {
                part.add(JsonValues.number(slot));
            }
            found.add(part);
        }
        return found;
    }

    /** Where this part is checked: before or after the operation, both, or nowhere. */
    List<String> placesAt(Operation operation) {
        String name = operation.name;
        if (!operation.matchable || op != null && !op.equals(name)) {
            return NOWHERE;
        }
        if (acts) {
            String like = step.like;
            if (!DecisionTable.DOABLE.contains(step.kind) || like.equals("error") && DecisionTable.MAPPED.contains(name)) {
                return NOWHERE;
            }
            if (like.equals("corrupt") || like.equals("drop")) {
                List<String> possible = like.equals("drop") ? DecisionTable.DROPPABLE : DecisionTable.CORRUPTIBLE;
                return possible.contains(name) ? Collections.singletonList(BEFORE) : NOWHERE;
            }
            if (like.equals("delay-operation") && DecisionTable.isTransfer(name)) {
                return Collections.singletonList(BEFORE);
            }
        }
        if (!involved.isEmpty()) {
            return DecisionTable.REACHING.contains(name) ? Collections.singletonList(BEFORE) : NOWHERE;
        }
        if (!when.isEmpty() && op == null) {
            return !DecisionTable.READ_BEFORE.contains(name) ? NOWHERE
                    : DecisionTable.READ_AFTER.contains(name) ? Arrays.asList(BEFORE, AFTER) : Collections.singletonList(BEFORE);
        }
        return Collections.singletonList(place);
    }

    boolean hasState() {
        return !state.isEmpty();
    }

    /** The values of the variables that are part of the point, as one text; empty if there are none. */
    String stateText(SharedState shared) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < state.size(); i++) {
            List<Integer> slots = state.get(i);
            String first = shared.text(slots.get(0));
            String shown = slots.size() == 1 ? first : Comparison.relation(first, shared.text(slots.get(1)));
            text.append(i == 0 ? "" : ", ").append(shown == null ? Comparison.ABSENT : shown);
        }
        return text.toString();
    }

    /** Count one occurrence; true if it is the one that the trigger names, or may be if the part is late. */
    @Override
    public boolean reached(SharedState state, Call call) {
        if (state.stepState(step.index) != wanted) {
            return false;
        }
        if (first != null && isFirst == first.isSeen(state)) {
            return false;
        }
        if (acts && step.boundTo != Step.ANYWHERE && state.boundTo(step.index) != step.boundTo) {
            return false;
        }
        return matches(call, state) && Comparison.allHold(when, state) && (isLate || counts());
    }

    /** Count one occurrence that matches; true if it is the one that the trigger names. */
    boolean counts() {
        return counter.incrementAndGet() == nth;
    }

    private boolean matches(Call call, SharedState state) {
        return (target == null || target.equals(call.subject.target))
                && !(acts && step.like.equals("drop") && call.isHandshake())
                && (loc == null || loc.equals(call.stack.loc))
                && (stack == null || stack.equals(call.stack.digest()))
                && (content == null || content.equals(call.subject.fullContent))
                && (involved.isEmpty() || isBetween(call.subject.target))
                && (keys.isEmpty() || !seen.contains(point(call, state)));
    }

    /** True if just one of this node and the receiver is involved. */
    private boolean isBetween(String target) {
        String peer = target.substring(target.lastIndexOf(' ') + 1);
        String other = peer.startsWith(PEER) ? peer.substring(PEER.length()) : "";
        return nodes.contains(other) && involved.contains(JsonValues.text(match.get("node"))) != involved.contains(other);
    }

    /** The values of the kept keys. Node and role come from the match: they were compared when the table was compiled. */
    private List<String> point(Call call, SharedState state) {
        List<String> values = new ArrayList<String>(keys.size());
        for (int i = 0; i < keys.size(); i++) {
            values.add(keys.get(i).equals(DecisionTable.STATE) ? stateText(state) : valueOf(keys.get(i), call));
        }
        return values;
    }

    private String valueOf(String key, Call call) {
        switch (key) {
            case "op":
                return call.operation.name;
            case "loc":
                return call.stack.loc;
            case "stack":
                return call.stack.digest();
            case "target":
                return call.subject.target;
            case "content":
                return call.subject.content;
            default:
                return JsonValues.text(match.get(key));
        }
    }
}
