package undermine.agent.stacks;

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;

/**
 * What is known of one class: whether its frames count, and those that were met. It hangs on the class and goes with it.
 *
 * To ask a frame for its method's name is what costs most in a walk. Mostly the place tells it: only one method of the
 * class has a call there. Else `ASK` is found there, and the frame is to be looked for by the method's name; and if
 * there are several of this name, by name and descriptor.
 */
final class ClassSites {
    static final Site ASK = new Site(0, "");

    /** The target's. */
    final boolean isOwn;
    final boolean isAgents;
    private volatile CallCounter calls;
    private volatile boolean isRead;
    private volatile SitesByIndex places = SitesByIndex.NONE;
    private volatile Map<String, SitesByIndex> byName = Collections.emptyMap();

    ClassSites(boolean isOwn, boolean isAgents) {
        this.isOwn = isOwn;
        this.isAgents = isAgents;
    }

    /** The frame at this place; null if it was not met yet, `ASK` if the place does not tell it. */
    Site at(int bci) {
        return places.get(bci);
    }

    /** The frame at this place of the method with this name (or name and descriptor), alike. */
    Site at(String name, int bci) {
        SitesByIndex found = byName.get(name);
        return found == null ? null : found.get(bci);
    }

    /** The calls in the class, or null if its file cannot be had. No lock is held: a loader of the target may have some. */
    CallCounter calls(Class<?> type) {
        if (!isRead) {
            learn(type, read(type));
        }
        return calls;
    }

    /** The first one counts: another thread may have come too late for what was kept. */
    private synchronized void learn(Class<?> type, CallCounter found) {
        if (!isRead) {
            calls = found;
            isRead = true;
            ClassBytes.forget(type);
        }
    }

    /** Not of what is woven in Netty: an operation is recorded at the method's entry or at one of its ends. */
    private static CallCounter read(Class<?> type) {
        if (NettyNames.type(type.getName().replace('.', '/')) != null) {
            return null;
        }
        byte[] bytes = ClassBytes.of(type);
        return bytes == null ? null : parse(bytes);
    }

    /** The calls in a class file, or null if it cannot be read. */
    static CallCounter parse(byte[] bytes) {
        try {
            return new CallCounter(bytes);
        } catch (IllegalArgumentException error) {
            return null;
        } catch (IndexOutOfBoundsException error) {
            return null;
        }
    }

    /** Remember a frame, in as many steps as it takes to tell it from all others. */
    synchronized void put(String name, String descriptor, int bci, Site frame) {
        CallCounter known = calls;
        CallCounter.Method method = known == null ? null : known.method(name, descriptor);
        boolean isHere = method != null && method.mayCallAt(bci);
        if (isHere && known.callersAt(null, bci) == 1) {
            places = places.with(bci, frame);
            return;
        }
        places = places.with(bci, ASK);
        if (isHere && known.callersAt(name, bci) == 1) {
            putNamed(name, bci, frame);
            return;
        }
        putNamed(name, bci, ASK);
        putNamed(name + descriptor, bci, frame);
    }

    private void putNamed(String name, int bci, Site frame) {
        Map<String, SitesByIndex> grown = new HashMap<String, SitesByIndex>(byName);
        SitesByIndex before = grown.get(name);
        grown.put(name, (before == null ? SitesByIndex.NONE : before).with(bci, frame));
        byName = grown;
    }
}
