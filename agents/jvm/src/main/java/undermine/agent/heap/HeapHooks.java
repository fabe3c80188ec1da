package undermine.agent.heap;

import java.util.Set;
import undermine.agent.record.Ops;
import undermine.agent.record.ThreadState;

/**
 * Called by woven code at accesses to the heap: before a write, after a read or a call. `site` is the number of the place in
 * the code. The owner of a static field is the name of its class, as a String.
 *
 * Outside handlers, a hook only looks at the thread's state. But objects that are created or stored are followed everywhere,
 * because this names them.
 */
public final class HeapHooks {
    private HeapHooks() {
    }

    /** An object of the target was created at this call site. */
    public static void created(Object object, String site) {
        HeapRecorder.created(object, site);
    }

    /** An object is stored in a field that never changes afterwards. */
    public static void stored(Object owner, Object value, String place) {
        HeapRecorder.stored(owner, value, place);
    }

    // --- fields

    public static void read(Object owner, Object value, String place, int site) {
        ThreadState state = ThreadState.get();
        long access = HeapRecorder.begin(state, owner, site, 0);
        if (access != 0) {
            HeapRecorder.field(state, access, Ops.heapRead, owner, value, place);
        }
    }

    public static void read(Object owner, boolean value, String place, int site) {
        ThreadState state = ThreadState.get();
        long access = HeapRecorder.begin(state, owner, site, 0);
        if (access != 0) {
            HeapRecorder.field(state, access, Ops.heapRead, owner, value, place);
        }
    }

    public static void read(Object owner, long value, String place, int site) {
        ThreadState state = ThreadState.get();
        long access = HeapRecorder.begin(state, owner, site, 0);
        if (access != 0) {
            HeapRecorder.field(state, access, Ops.heapRead, owner, value, place);
        }
    }

    public static void write(Object owner, Object value, String place, int site) {
        HeapRecorder.stored(owner, value, place);
        ThreadState state = ThreadState.get();
        long access = HeapRecorder.begin(state, owner, site, 0);
        if (access != 0) {
            HeapRecorder.field(state, access, Ops.heapWrite, owner, value, place);
        }
    }

    public static void write(Object owner, boolean value, String place, int site) {
        ThreadState state = ThreadState.get();
        long access = HeapRecorder.begin(state, owner, site, 0);
        if (access != 0) {
            HeapRecorder.field(state, access, Ops.heapWrite, owner, value, place);
        }
    }

    public static void write(Object owner, long value, String place, int site) {
        ThreadState state = ThreadState.get();
        long access = HeapRecorder.begin(state, owner, site, 0);
        if (access != 0) {
            HeapRecorder.field(state, access, Ops.heapWrite, owner, value, place);
        }
    }

    // --- elements of arrays

    public static void read(Object array, int index, Object value, int site) {
        ThreadState state = ThreadState.get();
        long access = HeapRecorder.begin(state, array, site, index);
        if (access != 0) {
            HeapRecorder.element(state, access, Ops.heapRead, array, index, value);
        }
    }

    public static void read(Object array, int index, long value, int site) {
        ThreadState state = ThreadState.get();
        long access = array instanceof byte[] ? 0 : HeapRecorder.begin(state, array, site, index);
        if (access != 0) {
            HeapRecorder.element(state, access, Ops.heapRead, array, index, value);
        }
    }

    /** Before the store: it may still fail. */
    public static void write(Object array, int index, Object value, int site) {
        if (array instanceof Object[] && value != null) {
            HeapRecorder.storedAt(array, value, index);
        }
        ThreadState state = ThreadState.get();
        long access = HeapRecorder.begin(state, array, site, index);
        if (access != 0) {
            HeapRecorder.element(state, access, Ops.heapWrite, array, index, value);
        }
    }

    public static void write(Object array, int index, long value, int site) {
        ThreadState state = ThreadState.get();
        long access = array instanceof byte[] ? 0 : HeapRecorder.begin(state, array, site, index);
        if (access != 0) {
            HeapRecorder.element(state, access, Ops.heapWrite, array, index, value);
        }
    }

    // --- methods of collections, maps and atomic variables; `result` comes first, because it is on the stack

    public static void called(Object result, Object owner, Object key, Object value, int method, int site) {
        called(result, owner, key, value, HeapMethod.at(method), false, site);
    }

    public static void called(boolean result, Object owner, Object key, Object value, int method, int site) {
        called((Object) result, owner, key, value, HeapMethod.at(method), false, site);
    }

    public static void called(long result, Object owner, Object key, Object value, int method, int site) {
        called(argument(result), owner, key, value, HeapMethod.at(method), false, site);
    }

    /** The same for a method that returns nothing. */
    public static void called(Object owner, Object key, Object value, int method, int site) {
        called(null, owner, key, value, HeapMethod.at(method), true, site);
    }

    private static void called(
            Object result, Object owner, Object key, Object value, HeapMethod method, boolean isVoid, int site) {
        if (value != null && method.stores()) {
            if (method.kind == HeapMethod.Kind.VALUE) {
                HeapRecorder.stored(owner, value, ".value");
            } else {
                HeapRecorder.storedAt(owner, value, key);
            }
        }
        ThreadState state = ThreadState.get();
        Object entry = method.kind == HeapMethod.Kind.ELEMENT && !(owner instanceof Set) ? null : key;
        long access = HeapRecorder.begin(state, owner, site, entry == null ? 0 : Values.hash(entry));
        if (access != 0) {
            HeapRecorder.called(state, access, method, owner, entry, value, result, isVoid);
        }
    }

    /** A number as an object; null outside handlers. */
    public static Object argument(long number) {
        return ThreadState.get().handler.number > 0 ? Long.valueOf(number) : null;
    }

    public static Object argument(boolean value) {
        return value;
    }
}
