package undermine.agent.heap;

import undermine.agent.names.Masks;
import undermine.agent.record.CurrentHandler;
import undermine.agent.stacks.Locs;

/**
 * The agent's knowledge of one object of the target: who created it, in which object it was first stored, and whether this
 * names it. It doesn't refer to the object. Texts of names are made when they are first needed, since few are.
 *
 * HeapNames guards it with a lock. Once `isNamed` is true, its owner, place and list don't change.
 */
final class HeapObject {
    /** The maximum number of owners that are looked at, and of places in a name. */
    private static final int DEPTH_MAX = 16;
    private static final int NAME_MAX = 200;

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

    private volatile boolean isNamed;
    /** The number of places in its name, the number of characters, and a hash of the masked name. */
    private int depth;
    private int length;
    private int target;
    /** In a linked list: the first object whose owner has the same class and is stored at the same place. It numbers the others. */
    private HeapObject list;
    private volatile String name;
    private volatile String masked;

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
        setRoot(name);
    }

    private void setRoot(String text) {
        owner = null;
        name = text;
        length = text.length();
        target = masked().hashCode();
        isNamed = true;
    }

    boolean isNamed() {
        return isNamed;
    }

    /** A hash of the masked name, without its text. */
    int target() {
        return target;
    }

    /** The exact name of an object that has one. */
    String name() {
        String found = name;
        if (found == null) {
            found = owner.name() + place;
            name = found;
        }
        return found;
    }

    String masked() {
        String found = masked;
        if (found == null) {
            found = Masks.mask(name());
            masked = found;
        }
        return found;
    }

    void createdAt(String loc) {
        site = loc;
    }

    /** The place for an object that is stored here without a key. */
    private String nextItem() {
        return "[#" + ++items + "]";
    }

    /** True if it has a name, or is stored below an object that has one. */
    private boolean hasPath() {
        return root().isNamed;
    }

    /** Remember where it is stored, unless this leads to a root already. `at` null: without a key. */
    void storedIn(HeapObject other, String at) {
        boolean isFirst = owner == null && !isNamed;
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
            if (each.isNamed || each.owner == null) { // the owners of a named object have names
                return false;
            }
            each = each.owner;
        }
        return true;
    }

    /** The outermost object that it is stored in, or the first that has a name. */
    private HeapObject root() {
        HeapObject each = this;
        for (int steps = 0; steps < 2 * DEPTH_MAX && !each.isNamed && each.owner != null; steps++) {
            each = each.owner;
        }
        return each;
    }

    /**
     * Find its name; false if it has none. An object that isn't below a root has one if another thread or handler than its
     * creator uses it: its class, where it was created, and a number.
     */
    boolean find(CurrentHandler user, Numbers numbers) {
        HeapObject root = root();
        if (!root.isNamed) {
            if (root.creator == user.id()) {
                return false;
            }
            root.nameByClass(numbers);
        }
        nameByPath(numbers);
        return true;
    }

    private void nameByPath(Numbers numbers) {
        if (isNamed) {
            return;
        }
        owner.nameByPath(numbers);
        boolean isLinked = type.equals(owner.type) && place.equals(owner.list == null ? owner.place : owner.list.place);
        list = !isLinked ? null : owner.list == null ? this : owner.list;
        if (list != null && list != this) {
            owner = list;
            place = list.nextItem();
        }
        depth = owner.depth + 1;
        length = owner.length + place.length();
        target = 31 * owner.target + targetOf(place);
        if (depth > DEPTH_MAX || length > NAME_MAX) {
            nameByClass(numbers);
        }
        isNamed = true;
    }

    /** The hash of a place, masked. */
    static int targetOf(String place) {
        boolean isPlain = place.startsWith(".") || place.isEmpty();
        return isPlain ? place.hashCode() : place.startsWith("[#") ? 0 : Masks.mask(place).hashCode();
    }

    private void nameByClass(Numbers numbers) {
        String base = Locs.ofClass(type) + (site.isEmpty() ? "" : "@" + site) + (handler.isEmpty() ? "" : " in " + handler);
        depth = 0;
        setRoot(base + " #" + numbers.next(base));
    }

    /** Numbers the objects with the same class, site and handler. */
    interface Numbers {
        int next(String base);
    }
}
