package undermine.agent.variables;

import java.util.HashMap;
import java.util.Map;

/** One reading of a variable: its texts by key. A key that has no text is absent. */
final class Reading {
    final Map<String, String> texts = new HashMap<String, String>();
    /** True if the variable has a text for each of several keys; else its key is empty. */
    final boolean hasKeys;
    /** True if another thread holds a lock of an owner, so that the texts may be those of a change that is under way. */
    boolean isLocked;

    Reading(boolean hasKeys) {
        this.hasKeys = hasKeys;
    }

    void put(String key, String text) {
        texts.put(key, text);
    }

    /** Look at the locks of an object or, if it is null, of a class, if that owns the variable. */
    void look(boolean isOwner, Class<?> type, Object object) throws ReflectiveOperationException {
        isLocked |= isOwner && OwnerLocks.isHeldElsewhere(type, object);
    }
}
