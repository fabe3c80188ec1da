package undermine.agent.heap;

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

    /**
     * The identity of an access: its site, the object, and the key. 0 if it isn't recorded now: outside handlers, or because
     * this handler has recorded it before.
     */
    static long begin(ThreadState state, Object owner, int site, int key) {
        boolean isOn = state.handler.number > 0 && owner != null && COUNT.get() < RECORDS_MAX
                && Observer.isSeen(AgentCore.current, state);
        if (!isOn) {
            return 0;
        }
        int object = owner instanceof String ? owner.hashCode() : System.identityHashCode(owner);
        long access = (long) site << 32 | (object * 31 + key & 0xffffffffL);
        return state.handler.has(access) ? 0 : access;
    }

    /** A field is accessed. Fields that never change are left out. */
    static void field(ThreadState state, long access, Operation operation, Object owner, Object value, String place) {
        state.busy = true;
        try {
            HeapObject object = NAMES.named(state, owner);
            if (object != null) {
                state.handler.add(access);
                if (owner instanceof String || !FINALS.has(owner.getClass(), place.substring(1))) {
                    record(state, access, operation, object, place, Values.content(value), 0);
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
    static void element(ThreadState state, long access, Operation operation, Object array, int index, Object value) {
        state.busy = true;
        try {
            HeapObject object = NAMES.names(array) ? NAMES.named(state, array) : null;
            if (object != null) {
                state.handler.add(access);
                String place = "[" + index + "]";
                record(state, access, operation, object, place, Values.content(value), 0);
                NAMES.stored(array, value, place);
            }
        } catch (Throwable trouble) {
            AgentCore.current.note(trouble);
        } finally {
            state.busy = false;
        }
    }

    /** A method of a collection, a map or an atomic variable has returned; `entry` null: it accesses no single key. */
    static void called(ThreadState state, long access, HeapMethod method, Object owner, Object entry, Object value,
            Object result, boolean isVoid) {
        state.busy = true;
        try {
            HeapObject object = NAMES.names(owner) ? NAMES.named(state, owner) : null;
            if (object != null) {
                state.handler.add(access);
                record(state, access, method, object, placeOf(method, entry), value, result, isVoid);
                if (method.kind == HeapMethod.Kind.VIEW) {
                    NAMES.stored(owner, result, "");
                } else if (method.kind == HeapMethod.Kind.KEY && method.effect == HeapMethod.Effect.READS) {
                    NAMES.stored(owner, result, itemPlace(entry));
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

    private static void record(ThreadState state, long access, HeapMethod method, HeapObject object, String place, Object value,
            Object result, boolean isVoid) {
        boolean isDone = isVoid || result != null && !Boolean.FALSE.equals(result);
        Object shown = method.effect == HeapMethod.Effect.READS && !isVoid ? result : method.value < 0 ? HeapRecorder.class : value;
        String content = Values.content(shown);
        switch (method.effect) {
            case PUTS:
                record(state, access, Ops.heapWrite, object, place, content, result == null ? ADDED : 0);
                return;
            case ADDS_IF_NULL:
                record(state, access, result == null ? Ops.heapWrite : Ops.heapRead, object, place, content, result == null ? ADDED : 0);
                return;
            case ADDS:
                record(state, access, isDone ? Ops.heapWrite : Ops.heapRead, object, place, content, isDone ? ADDED : 0);
                return;
            case REMOVES:
                record(state, access, isDone ? Ops.heapWrite : Ops.heapRead, object, place, "", isDone ? REMOVED : 0);
                return;
            case WRITES_IF_TRUE:
                record(state, access, isDone ? Ops.heapWrite : Ops.heapRead, object, place, content, 0);
                return;
            case WRITES:
                record(state, access, Ops.heapWrite, object, place, content, 0);
                return;
            default:
                record(state, access, Ops.heapRead, object, place, content, 0);
        }
    }

    private static void record(ThreadState state, long access, Operation operation, HeapObject object, String place,
            String content, long result) {
        int target = (int) (access >>> 32) ^ 31 * object.target() + HeapObject.targetOf(place);
        int count = REPETITIONS.isWanted(access, target, content) ? COUNT.incrementAndGet() : RECORDS_MAX + 1;
        if (count > RECORDS_MAX) {
            return;
        }
        AgentCore agent = AgentCore.current;
        Cursor cursor = agent.cursor(state);
        Subject subject =
                new Subject(object.masked() + Masks.mask(place), object.name() + place, false, content, true);
        Recorder.put(agent, state, cursor, operation, subject, agent.sites.here(cursor), result);
        if (count == RECORDS_MAX) {
            agent.addGap(cursor, FULL);
        }
    }
}
