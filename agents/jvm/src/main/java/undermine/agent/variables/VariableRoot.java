package undermine.agent.variables;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import undermine.agent.process.Clock;

/** A class at which paths of variables start. Its instances are remembered but not kept alive. */
class VariableRoot {
    private static final int INSTANCES_MAX = 16;
    private static final long RETRY_NS = 100000000L;

    private final String name;
    /** Null until the class is loaded; refers to null if the JVM itself has loaded it. */
    private WeakReference<ClassLoader> loader;
    private WeakReference<Class<?>> found;
    private long nextLook;
    private final List<WeakReference<Object>> instances = new ArrayList<WeakReference<Object>>();

    VariableRoot(String name) {
        this.name = name;
    }

    synchronized void loadedBy(ClassLoader newLoader) {
        loader = new WeakReference<ClassLoader>(newLoader);
        found = null;
        nextLook = 0;
    }

    /** A constructor has ended. False if it called another one of its class, so that the instance is known already. */
    synchronized boolean made(Object instance) {
        for (WeakReference<Object> each : instances) {
            if (each.get() == instance) {
                return false;
            }
        }
        if (instances.size() == INSTANCES_MAX) {
            instances.remove(0);
        }
        instances.add(new WeakReference<Object>(instance));
        return true;
    }

    synchronized void forget() {
        instances.clear();
    }

    /** The newest living instance, or null. */
    synchronized Object newest() {
        for (int i = instances.size() - 1; i >= 0; i--) {
            Object instance = instances.get(i).get();
            if (instance != null) {
                return instance;
            }
        }
        return null;
    }

    /** The instances that are still in memory, the oldest first. Some may be garbage already. */
    synchronized List<Object> living() {
        List<Object> living = new ArrayList<Object>();
        for (WeakReference<Object> each : instances) {
            Object instance = each.get();
            if (instance != null) {
                living.add(instance);
            }
        }
        return living;
    }

    /** The class, or null if it isn't loaded. While it is being loaded it is looked up again, but not at every operation. */
    Class<?> type() {
        ClassLoader from;
        synchronized (this) {
            Class<?> known = found == null ? null : found.get();
            if (known != null || loader == null || Clock.now() < nextLook) {
                return known;
            }
            from = loader.get();
        }
        return look(from);
    }

    /** Holds no lock: the thread that is loading the class may be about to call `loadedBy`. */
    private Class<?> look(ClassLoader from) {
        Class<?> known = null;
        try {
            known = Class.forName(name, false, from);
        } catch (ClassNotFoundException | LinkageError absent) {
            known = null;
        }
        synchronized (this) {
            found = known == null ? null : new WeakReference<Class<?>>(known);
            nextLook = known == null ? Clock.now() + RETRY_NS : 0;
        }
        return known;
    }
}
