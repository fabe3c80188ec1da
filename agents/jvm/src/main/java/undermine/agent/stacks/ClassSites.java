package undermine.agent.stacks;

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import undermine.agent.classfiles.ClassBytes;

/**
 * The call sites of one class that have been seen, and whether its frames belong to the target. It is stored with the
 * class and collected with it.
 *
 * Asking a frame for its method's name is the most expensive part of a walk. Mostly the index is enough, because only one
 * method of the class has a call there. Otherwise the site at that index is `ASK`: look it up again by the method's name,
 * and if that is ambiguous too, by name and descriptor.
 */
final class ClassSites {
    static final Site ASK = new Site(0, "");

    /** True for a class of the target. */
    final boolean isOfTarget;
    final boolean isOfAgent;
    private volatile CallCounter calls;
    private volatile boolean isRead;
    private volatile SitesByIndex places = SitesByIndex.NONE;
    private volatile Map<String, SitesByIndex> byName = Collections.emptyMap();

    ClassSites(boolean isOfTarget, boolean isOfAgent) {
        this.isOfTarget = isOfTarget;
        this.isOfAgent = isOfAgent;
    }

    /** The site at this index; null if it hasn't been seen, `ASK` if the index is ambiguous. */
    Site at(int bci) {
        return places.get(bci);
    }

    /** The site at this index of the method with this name (or name and descriptor); null or `ASK` as above. */
    Site at(String name, int bci) {
        SitesByIndex found = byName.get(name);
        return found == null ? null : found.get(bci);
    }

    /**
     * The calls in the class; null if its class file can't be read. Holds no lock, since a loader of the target may take
     * locks.
     */
    CallCounter calls(Class<?> type) {
        if (!isRead) {
            learn(type, read(type));
        }
        return calls;
    }

    /** The first thread wins: a later one may find the kept class file dropped. */
    private synchronized void learn(Class<?> type, CallCounter found) {
        if (!isRead) {
            calls = found;
            isRead = true;
            ClassBytes.forget(type);
        }
    }

    /** Netty's woven classes are not counted: their operations are recorded at the entry or at an end of a method. */
    private static CallCounter read(Class<?> type) {
        if (NettyNames.type(type.getName().replace('.', '/')) != null) {
            return null;
        }
        byte[] bytes = ClassBytes.of(type);
        return bytes == null ? null : parse(bytes);
    }

    /** The calls in a class file, or null if it is malformed. */
    static CallCounter parse(byte[] bytes) {
        try {
            return new CallCounter(bytes);
        } catch (IllegalArgumentException error) {
            return null;
        } catch (IndexOutOfBoundsException error) {
            return null;
        }
    }

    /** Store a site under its index, its method's name, or name and descriptor: the first of these that is unambiguous. */
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
