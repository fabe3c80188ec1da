package undermine.agent.heap;

import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import undermine.agent.names.Masks;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;
import undermine.agent.record.AgentCore;
import undermine.agent.record.Observer;
import undermine.agent.record.Ops;
import undermine.agent.record.Recorder;
import undermine.agent.record.ThreadState;
import undermine.agent.wire.Cursor;

/** Records accesses inside handlers: each place once at each site, as long as a handler or a round of its loop lasts. */
public final class HeapRecorder {
    /** The maximum number of records of a process. */
    static final int RECORDS_MAX = 200_000;
    private static final String FULL =
            "heap: this process reached the limit of " + RECORDS_MAX + " records; later accesses are missing";
    private static final long ADDED = 1;
    private static final long REMOVED = 2;

    private static final HeapNames NAMES = new HeapNames();
    private static final FinalFields FINALS = new FinalFields();
    private static final Repetitions REPETITIONS = new Repetitions();
    private static final AtomicInteger COUNT = new AtomicInteger();

    private HeapRecorder() {
    }

    /** An object was created. */
    static void created(Object object, String site) {
        try {
            NAMES.created(object, site);
        } catch (Throwable trouble) {
            AgentCore.current.note(trouble);
        }
    }

    /** An object is stored in another one. */
    static void stored(Object owner, Object value, String place) {
        try {
            NAMES.stored(owner, value, place);
        } catch (Throwable trouble) {
            AgentCore.current.note(trouble);
        }
    }

    /** An object is stored under a key; if the key has no text, the object gets a number. */
    static void storedAt(Object owner, Object value, Object key) {
        if (NAMES.lacksName(value)) {
            stored(owner, value, itemPlace(key));
        }
    }

    /** True if the thread's accesses are recorded now. */
    static boolean isOn(ThreadState state) {
        return state.handler.number > 0 && COUNT.get() < RECORDS_MAX && Observer.isSeen(AgentCore.current, state);
    }

    /** The identity of an access: its site, the object, and the key. */
    private static long identity(Object owner, int site, int key) {
        int object = owner instanceof String ? owner.hashCode() : System.identityHashCode(owner);
        return (long) site << 32 | (object * 31 + key & 0xffffffffL);
    }

    /** A field is accessed. Fields that never change are left out. */
    static void field(ThreadState state, Operation operation, Object owner, Object value, String place, int site) {
        long identity = identity(owner, site, 0);
        if (state.handler.has(identity)) {
            return;
        }
        state.busy = true;
        try {
            HeapObject object = NAMES.named(state, owner);
            if (object != null) {
                state.handler.add(identity);
                if (owner instanceof String || !FINALS.has(owner.getClass(), place.substring(1))) {
                    record(state, identity, operation, object, place, Values.content(value), 0);
                }
                NAMES.stored(owner, value, place);
            }
        } catch (Throwable trouble) {
            AgentCore.current.note(trouble);
        } finally {
            state.busy = false;
        }
    }

    /** An element of an array is accessed. */
    static void element(ThreadState state, Operation operation, Object array, int index, Object value, int site) {
        long identity = identity(array, site, index);
        if (state.handler.has(identity)) {
            return;
        }
        state.busy = true;
        try {
            HeapObject object = NAMES.names(array) ? NAMES.named(state, array) : null;
            if (object != null) {
                state.handler.add(identity);
                String place = "[" + index + "]";
                record(state, identity, operation, object, place, Values.content(value), 0);
                NAMES.stored(array, value, place);
            }
        } catch (Throwable trouble) {
            AgentCore.current.note(trouble);
        } finally {
            state.busy = false;
        }
    }

    /** A method of a collection, a map or an atomic variable has returned. */
    static void called(
            ThreadState state, HeapMethod method, Object owner, Object key, Object value, Object result, boolean isVoid, int site) {
        Object entry = method.kind == HeapMethod.Kind.ELEMENT && !(owner instanceof Set) ? null : key;
        long identity = identity(owner, site, entry == null ? 0 : Values.hash(entry));
        if (state.handler.has(identity)) {
            return;
        }
        state.busy = true;
        try {
            HeapObject object = NAMES.names(owner) ? NAMES.named(state, owner) : null;
            if (object != null) {
                state.handler.add(identity);
                record(state, identity, method, object, placeOf(method, entry), value, result, isVoid);
                if (method.kind == HeapMethod.Kind.VIEW) {
                    NAMES.stored(owner, result, "");
                } else if (method.kind == HeapMethod.Kind.KEY && method.effect == HeapMethod.Effect.READS) {
                    NAMES.stored(owner, result, itemPlace(key));
                }
            }
        } catch (Throwable trouble) {
            AgentCore.current.note(trouble);
        } finally {
            state.busy = false;
        }
    }

    /** The place at which an object is stored; null: it gets a number. */
    private static String itemPlace(Object key) {
        String place = Values.place(key);
        return place.equals(Values.ANY) ? null : place;
    }

    private static String placeOf(HeapMethod method, Object entry) {
        return method.kind == HeapMethod.Kind.VALUE ? ".value" : entry == null ? Values.ANY : Values.place(entry);
    }

    private static void record(ThreadState state, long identity, HeapMethod method, HeapObject object, String place, Object value,
            Object result, boolean isVoid) {
        boolean isDone = isVoid || result != null && !Boolean.FALSE.equals(result);
        Object shown = method.effect == HeapMethod.Effect.READS && !isVoid ? result : method.value < 0 ? HeapRecorder.class : value;
        String content = Values.content(shown);
        switch (method.effect) {
            case PUTS:
                record(state, identity, Ops.heapWrite, object, place, content, result == null ? ADDED : 0);
                return;
            case ADDS_IF_NULL:
                record(state, identity, result == null ? Ops.heapWrite : Ops.heapRead, object, place, content, result == null ? ADDED : 0);
                return;
            case ADDS:
                record(state, identity, isDone ? Ops.heapWrite : Ops.heapRead, object, place, content, isDone ? ADDED : 0);
                return;
            case REMOVES:
                record(state, identity, isDone ? Ops.heapWrite : Ops.heapRead, object, place, "", isDone ? REMOVED : 0);
                return;
            case WRITES_IF_TRUE:
                record(state, identity, isDone ? Ops.heapWrite : Ops.heapRead, object, place, content, 0);
                return;
            case WRITES:
                record(state, identity, Ops.heapWrite, object, place, content, 0);
                return;
            default:
                record(state, identity, Ops.heapRead, object, place, content, 0);
        }
    }

    private static void record(ThreadState state, long identity, Operation operation, HeapObject object, String place,
            String content, long result) {
        String target = object.masked() + Masks.mask(place);
        int site = (int) (identity >>> 32);
        int count = REPETITIONS.isWanted(identity, site ^ target.hashCode(), content) ? COUNT.incrementAndGet() : RECORDS_MAX + 1;
        if (count > RECORDS_MAX) {
            return;
        }
        AgentCore agent = AgentCore.current;
        Cursor cursor = agent.cursor(state);
        Subject subject = new Subject(target, object.name() + place, false, content, true);
        Recorder.put(agent, state, cursor, operation, subject, agent.sites.here(cursor), result);
        if (count == RECORDS_MAX) {
            agent.addGap(cursor, FULL);
        }
    }
}
