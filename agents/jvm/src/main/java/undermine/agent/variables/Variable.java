package undermine.agent.variables;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import undermine.agent.lib.JsonValues;
import undermine.agent.wire.SharedState;

/** A variable of this node, with the texts that were published last. */
final class Variable {
    private static final int READS_MAX = 4;
    private static final int LOCKED_MAX = 20;
    private static final int REASONS_MAX = 8;

    private final String name;
    private final VariableRoot root;
    private final VariablePath path;
    private final Map<String, Integer> slots = new HashMap<String, Integer>();
    private Map<String, String> published; // null before the first publication
    /** The number of readings in a row that were discarded because of a lock. */
    private int discarded;
    /** True once the path has led somewhere, or enough reasons why it hasn't are recorded. */
    private volatile boolean isExplained;
    private final Set<String> reasons = new HashSet<String>();

    Variable(String name, VariableRoot root, VariablePath path, Map<String, Object> slots) {
        this.name = name;
        this.root = root;
        this.path = path;
        for (Map.Entry<String, Object> each : slots.entrySet()) {
            this.slots.put(each.getKey(), JsonValues.number(each.getValue()));
        }
    }

    /** The current texts and, until the path has led somewhere, the part that leads nowhere. */
    Reading read() {
        Reading reading = readTexts();
        if (!reading.texts.isEmpty()) {
            isExplained = true;
        } else if (!isExplained && !reading.isLocked) {
            reading.why = Reasons.whyNothing(path, root);
        }
        return reading;
    }

    /** A reading of a path that leads nowhere. */
    Reading nothing() {
        return new Reading(path.hasKeys);
    }

    private Reading readTexts() {
        for (int i = 0; i < READS_MAX; i++) {
            try {
                return path.read(root);
            } catch (ReflectiveOperationException | LinkageError | StackOverflowError trouble) { // it leads nowhere
                return nothing();
            } catch (RuntimeException changing) { // such as a ConcurrentModificationException
                continue;
            }
        }
        return Reading.unknown(path.hasKeys);
    }

    /** Publish the texts that have changed. Only one thread does this at a time. */
    void publish(Reading reading, SharedState state, Samples samples) {
        if (!reading.isKnown) {
            explain(reading, samples);
            return;
        }
        if (reading.isLocked && discarded < LOCKED_MAX) {
            discarded++;
            return;
        }
        discarded = 0;
        if (published == null) {
            begin(reading, state, samples);
        }
        explain(reading, samples);
        if (reading.texts.equals(published)) {
            return;
        }
        for (String key : changed(reading.texts)) {
            String text = reading.texts.get(key);
            Integer slot = slots.get(key);
            if (slot != null) {
                state.publish(slot, text);
            }
            samples.changed(name, key, text);
        }
        published = reading.texts;
    }

    /** Record why the path leads nowhere: each reason once. */
    private void explain(Reading reading, Samples samples) {
        if (!reading.why.isEmpty() && !isExplained && reasons.add(reading.why)) {
            isExplained = reasons.size() == REASONS_MAX;
            samples.leadsNowhere(name, reading.why);
        }
    }

    /** Clear the slots of absent keys, which may still have texts of an earlier incarnation, and record an absent variable. */
    private void begin(Reading reading, SharedState state, Samples samples) {
        published = new HashMap<String, String>();
        for (Map.Entry<String, Integer> each : slots.entrySet()) {
            if (!reading.texts.containsKey(each.getKey())) {
                state.publish(each.getValue(), null);
            }
        }
        if (!reading.hasKeys && reading.texts.isEmpty()) {
            samples.changed(name, "", null);
        }
    }

    private List<String> changed(Map<String, String> texts) {
        List<String> keys = new ArrayList<String>();
        for (Map.Entry<String, String> each : texts.entrySet()) {
            if (!each.getValue().equals(published.get(each.getKey()))) {
                keys.add(each.getKey());
            }
        }
        for (String key : published.keySet()) {
            if (!texts.containsKey(key)) {
                keys.add(key);
            }
        }
        return keys;
    }
}
