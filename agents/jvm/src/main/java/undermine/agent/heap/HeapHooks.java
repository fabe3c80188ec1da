package undermine.agent.heap;

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
        if (owner != null && HeapRecorder.isOn(state)) {
            HeapRecorder.field(state, Ops.heapRead, owner, value, place, site);
        }
    }

    public static void read(Object owner, boolean value, String place, int site) {
        ThreadState state = ThreadState.get();
        if (owner != null && HeapRecorder.isOn(state)) {
            HeapRecorder.field(state, Ops.heapRead, owner, value, place, site);
        }
    }

    public static void read(Object owner, long value, String place, int site) {
        ThreadState state = ThreadState.get();
        if (owner != null && HeapRecorder.isOn(state)) {
            HeapRecorder.field(state, Ops.heapRead, owner, value, place, site);
        }
    }

    public static void write(Object owner, Object value, String place, int site) {
        HeapRecorder.stored(owner, value, place);
        ThreadState state = ThreadState.get();
        if (owner != null && HeapRecorder.isOn(state)) {
            HeapRecorder.field(state, Ops.heapWrite, owner, value, place, site);
        }
    }

    public static void write(Object owner, boolean value, String place, int site) {
        ThreadState state = ThreadState.get();
        if (owner != null && HeapRecorder.isOn(state)) {
            HeapRecorder.field(state, Ops.heapWrite, owner, value, place, site);
        }
    }

    public static void write(Object owner, long value, String place, int site) {
        ThreadState state = ThreadState.get();
        if (owner != null && HeapRecorder.isOn(state)) {
            HeapRecorder.field(state, Ops.heapWrite, owner, value, place, site);
        }
    }

    // --- elements of arrays

    public static void read(Object array, int index, Object value, int site) {
        ThreadState state = ThreadState.get();
        if (HeapRecorder.isOn(state)) {
            HeapRecorder.element(state, Ops.heapRead, array, index, value, site);
        }
    }

    public static void read(Object array, int index, long value, int site) {
        ThreadState state = ThreadState.get();
        if (HeapRecorder.isOn(state) && !(array instanceof byte[])) {
            HeapRecorder.element(state, Ops.heapRead, array, index, value, site);
        }
    }

    /** Before the store: it may still fail. */
    public static void write(Object array, int index, Object value, int site) {
        if (array instanceof Object[] && value != null) {
            HeapRecorder.storedAt(array, value, index);
        }
        ThreadState state = ThreadState.get();
        if (array != null && HeapRecorder.isOn(state)) {
            HeapRecorder.element(state, Ops.heapWrite, array, index, value, site);
        }
    }

    public static void write(Object array, int index, long value, int site) {
        ThreadState state = ThreadState.get();
        if (array != null && HeapRecorder.isOn(state) && !(array instanceof byte[])) {
            HeapRecorder.element(state, Ops.heapWrite, array, index, value, site);
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
        if (HeapRecorder.isOn(state)) {
            HeapRecorder.called(state, method, owner, key, value, result, isVoid, site);
        }
    }

    /** A number as an object; null outside handlers. */
    public static Object argument(long number) {
        return HeapRecorder.isOn(ThreadState.get()) ? Long.valueOf(number) : null;
    }

    public static Object argument(boolean value) {
        return value;
    }
}
