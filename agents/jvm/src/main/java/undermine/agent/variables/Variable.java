package undermine.agent.variables;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import undermine.agent.lib.JsonValues;
import undermine.agent.wire.SharedState;

/** A variable of this node, with the texts that were published last. */
final class Variable {
    private static final int READS_MAX = 4;
    private static final int LOCKED_MAX = 20;

    private final String name;
    private final VariableRoot root;
    private final VariablePath path;
    private final Map<String, Integer> slots = new HashMap<String, Integer>();
    private Map<String, String> published; // null before the first publication
    /** The number of readings in a row that were discarded because of a lock. */
    private int discarded;

    Variable(String name, VariableRoot root, VariablePath path, Map<String, Object> slots) {
        this.name = name;
        this.root = root;
        this.path = path;
        for (Map.Entry<String, Object> each : slots.entrySet()) {
            this.slots.put(each.getKey(), JsonValues.number(each.getValue()));
        }
    }

    /**
     * The current texts; null if they are unknown: the class at which the path starts isn't loaded, or containers change
     * while they are read.
     */
    Reading read() {
        for (int i = 0; i < READS_MAX; i++) {
            try {
                return path.read(root);
            } catch (ReflectiveOperationException | LinkageError | StackOverflowError trouble) { // it leads nowhere
                return new Reading(path.hasKeys);
            } catch (RuntimeException changing) { // such as a ConcurrentModificationException
                continue;
            }
        }
        return null;
    }

    /** Publish the texts that have changed. Only one thread does this at a time. */
    void publish(Reading reading, SharedState state, Samples samples) {
        if (reading == null) {
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
