package undermine.agent.heap;

import undermine.agent.names.Masks;
import undermine.agent.record.CurrentHandler;
import undermine.agent.stacks.Locs;

/**
 * The agent's knowledge of one object of the target: who created it, in which object it was first stored, and its name once
 * it has one. It doesn't refer to the object.
 *
 * Everything but `name` is guarded by the lock of HeapNames.
 */
final class HeapObject {
    /** The maximum number of owners that are looked at, and of places in a name. */
    private static final int DEPTH_MAX = 16;
    private static final int NAME_MAX = 200;

    /** The exact name; null until it has one. */
    private volatile String name;
    private String masked;
    private final String type;
    /** The method that created it, with the ordinal of the call; empty if that isn't known. */
    private String site = "";
    /** The kind of handler in which it was created or first used. */
    private final String handler;
    private final long creator;
    /** The object in which it was stored, and the place there; null: nowhere. */
    private HeapObject owner;
    private String place;
    /** The number of objects that were stored in it without a key. */
    private int items;
    /** The number of places in its name. */
    private int depth;
    /** In a linked list: the first object whose owner has the same class and is stored at the same place. */
    private HeapObject list;

    HeapObject(Class<?> type, CurrentHandler creator) {
        this.type = type.getName();
        this.creator = creator.id();
        handler = creator.kind();
    }

    /** A root. */
    HeapObject(String name) {
        type = name;
        creator = 0;
        handler = "";
        setName(name);
    }

    String name() {
        return name;
    }

    String masked() {
        return masked;
    }

    private void setName(String found) {
        masked = Masks.mask(found);
        name = found;
    }

    void createdAt(String loc) {
        site = loc;
    }

    /** The place for an object that is stored here without a key. */
    String nextItem() {
        return "[#" + ++items + "]";
    }

    /** True if the stored object has a path to a root. */
    boolean hasPath() {
        return root().name != null;
    }

    /** Remember where it is stored, unless it has a path to a root already. */
    void storedIn(HeapObject other, String at) {
        boolean isFirst = owner == null && name == null;
        if ((isFirst || !hasPath() && other.hasPath()) && !other.isIn(this)) {
            owner = other;
            place = at == null ? other.nextItem() : at;
        }
    }

    /** True if this object is stored in the other one, or if that would take too long to find out. */
    private boolean isIn(HeapObject other) {
        HeapObject each = this;
        for (int steps = 0; steps < DEPTH_MAX; steps++) {
            if (each == other) {
                return true;
            }
            if (each.name != null || each.owner == null) { // the owners of a named object have names
                return false;
            }
            each = each.owner;
        }
        return true;
    }

    /** The outermost object that it is stored in, or the first that has a name. */
    private HeapObject root() {
        HeapObject each = this;
        for (int steps = 0; steps < 2 * DEPTH_MAX && each.name == null && each.owner != null; steps++) {
            each = each.owner;
        }
        return each;
    }

    /**
     * Find its name; null if it has none. An object that isn't below a root has one if another thread or handler than its
     * creator uses it: its class, where it was created, and a number.
     */
    String find(CurrentHandler user, Numbers numbers) {
        HeapObject root = root();
        if (root.name == null) {
            if (root.creator == user.id()) {
                return null;
            }
            root.nameByClass(numbers);
        }
        setPath(numbers);
        return name;
    }

    private void setPath(Numbers numbers) {
        if (name != null) {
            return;
        }
        owner.setPath(numbers);
        boolean isLinked = place.equals(owner.place) && type.equals(owner.type);
        list = !isLinked ? null : owner.list == null ? this : owner.list;
        depth = owner.depth + 1;
        if (list != null && list != this) {
            setName(list.name + list.nextItem());
        } else if (depth > DEPTH_MAX || owner.name.length() + place.length() > NAME_MAX) {
            nameByClass(numbers);
        } else {
            setName(owner.name + place);
        }
    }

    private void nameByClass(Numbers numbers) {
        String base = Locs.ofClass(type) + (site.isEmpty() ? "" : "@" + site) + (handler.isEmpty() ? "" : " in " + handler);
        setName(base + " #" + numbers.next(base));
    }

    /** Numbers the objects with the same class, site and handler. */
    interface Numbers {
        int next(String base);
    }
}
