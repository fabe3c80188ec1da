package undermine.agent.variables;

import java.util.HashMap;
import java.util.Map;

/** One reading of a variable: its texts by key. A key that has no text is absent. */
final class Reading {
    final Map<String, String> texts = new HashMap<String, String>();
    /** True if the variable has a text for each of several keys; else its key is empty. */
    final boolean hasKeys;
    /** False if the texts are unknown: the path's class isn't loaded, or containers change while they are read. */
    boolean isKnown = true;
    /** The part of the path that leads nowhere; empty: it leads somewhere, or that wasn't asked. */
    String why = "";
    /** True if another thread holds a lock of an owner, so that the texts may be those of a change that is under way. */
    boolean isLocked;

    Reading(boolean hasKeys) {
        this.hasKeys = hasKeys;
    }

    static Reading unknown(boolean hasKeys) {
        Reading reading = new Reading(hasKeys);
        reading.isKnown = false;
        return reading;
    }

    void put(String key, String text) {
        texts.put(key, text);
    }

    /** Look at the locks of an object or, if it is null, of a class, if that owns the variable. */
    void look(boolean isOwner, Class<?> type, Object object) throws ReflectiveOperationException {
        isLocked |= isOwner && OwnerLocks.isHeldElsewhere(type, object);
    }
}
