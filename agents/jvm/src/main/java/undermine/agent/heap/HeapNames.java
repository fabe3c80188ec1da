package undermine.agent.heap;

import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import undermine.agent.lib.WeakIdentityMap;
import undermine.agent.record.AgentCore;
import undermine.agent.record.ThreadState;

/** Names the objects of the target so that two runs agree: by the path from a static field, else by where they were created. */
final class HeapNames implements HeapObject.Numbers {
    private static final int BUCKETS = 1 << 16;
    private static final String ATOMIC = "java.util.concurrent.atomic.";

    private final WeakIdentityMap<HeapObject> objects = new WeakIdentityMap<HeapObject>(BUCKETS);
    private final ConcurrentHashMap<String, HeapObject> roots = new ConcurrentHashMap<String, HeapObject>();
    private final Map<String, Integer> numbers = new HashMap<String, Integer>();
    private final ClassValue<Boolean> isNamed = new ClassValue<Boolean>() {
        @Override
        protected Boolean computeValue(Class<?> type) {
            return mayBeNamed(type);
        }
    };

    /** True for classes whose accesses are woven. The contents of byte and char arrays are data, not state. */
    private static boolean mayBeNamed(Class<?> type) {
        if (type.isArray()) {
            return type != byte[].class && type != char[].class;
        }
        AgentCore agent = AgentCore.current;
        if (type.getName().startsWith("java.util.ImmutableCollections") || type.getName().startsWith("java.util.Collections$Empty")) {
            return false; // everybody shares them, and they never change
        }
        return Collection.class.isAssignableFrom(type) || Map.class.isAssignableFrom(type) || Iterator.class.isAssignableFrom(type)
                || type.getName().startsWith(ATOMIC) || agent != null && agent.sites.isOfTarget(type);
    }

    boolean names(Object object) {
        return isNamed.get(object.getClass());
    }

    /** An object was created at this call site. */
    void created(Object object, String site) {
        if (names(object)) {
            HeapObject known = of(object);
            synchronized (this) {
                known.createdAt(site);
            }
        }
    }

    /** An object is stored in another one, or in a static field of the class that `owner` names; `place` null: without a key. */
    void stored(Object owner, Object value, String place) {
        if (value == null || owner == null || !names(value)) {
            return;
        }
        HeapObject known = of(value);
        if (!known.isNamed()) {
            HeapObject in = of(owner);
            synchronized (this) {
                known.storedIn(in, place);
            }
        }
    }

    boolean lacksName(Object value) {
        HeapObject known = names(value) ? objects.get(value) : null;
        return known == null || !known.isNamed();
    }

    /** The object, with its name; null if it has none. */
    HeapObject named(ThreadState user, Object object) {
        HeapObject known = of(object);
        if (!known.isNamed()) {
            synchronized (this) {
                if (!known.find(user.handler, this)) {
                    return null;
                }
            }
        }
        return known;
    }

    private HeapObject of(Object object) {
        if (object instanceof String) {
            return root((String) object);
        }
        HeapObject known = objects.get(object);
        return known != null ? known : objects.putIfAbsent(object, new HeapObject(object.getClass(), ThreadState.get().handler));
    }

    private HeapObject root(String name) {
        HeapObject known = roots.get(name);
        if (known == null) {
            roots.putIfAbsent(name, new HeapObject(name));
            known = roots.get(name);
        }
        return known;
    }

    @Override
    public int next(String base) {
        Integer before = numbers.get(base);
        int number = before == null ? 1 : before + 1;
        numbers.put(base, number);
        return number;
    }
}
