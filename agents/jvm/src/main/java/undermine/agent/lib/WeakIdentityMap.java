package undermine.agent.lib;

import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReferenceArray;

/** A map whose keys are compared by identity and are not kept alive. A lookup takes no lock. */
public final class WeakIdentityMap<T> {
    private static final int BUCKETS = 1024;
    private static final int FORGOTTEN_MAX = 100;

    private final AtomicReferenceArray<Entry<T>> buckets;
    private final ReferenceQueue<Object> gone = new ReferenceQueue<Object>();

    public WeakIdentityMap() {
        this(BUCKETS);
    }

    /** `size` is the number of buckets, a power of two. */
    public WeakIdentityMap(int size) {
        buckets = new AtomicReferenceArray<Entry<T>>(size);
    }

    private static final class Entry<T> extends WeakReference<Object> {
        final int bucket;
        final T value;
        final Entry<T> next;

        Entry(Object key, int bucket, T value, Entry<T> next, ReferenceQueue<Object> gone) {
            super(key, gone);
            this.bucket = bucket;
            this.value = value;
            this.next = next;
        }
    }

    public T get(Object key) {
        for (Entry<T> entry = buckets.get(bucketOf(key)); entry != null; entry = entry.next) {
            if (entry.get() == key) {
                return entry.value;
            }
        }
        return null;
    }

    public synchronized void put(Object key, T value) {
        forgetGone();
        int bucket = bucketOf(key);
        buckets.set(bucket, new Entry<T>(key, bucket, value, without(buckets.get(bucket), key), gone));
    }

    /** Return the value that the key has now: this one, or the one that another thread has put before. */
    public synchronized T putIfAbsent(Object key, T value) {
        T before = get(key);
        if (before != null) {
            return before;
        }
        forgetGone();
        int bucket = bucketOf(key);
        buckets.set(bucket, new Entry<T>(key, bucket, value, buckets.get(bucket), gone));
        return value;
    }

    public synchronized T remove(Object key) {
        T value = get(key);
        if (value != null) {
            int bucket = bucketOf(key);
            buckets.set(bucket, without(buckets.get(bucket), key));
        }
        return value;
    }

    /** The keys that are still alive, in no order. */
    public List<Object> keys() {
        List<Object> found = new ArrayList<Object>();
        for (int i = 0; i < buckets.length(); i++) {
            for (Entry<T> entry = buckets.get(i); entry != null; entry = entry.next) {
                Object key = entry.get();
                if (key != null) {
                    found.add(key);
                }
            }
        }
        return found;
    }

    /** Forget some of the collected keys. The others are forgotten later: one call must not take long. */
    private void forgetGone() {
        Object each = gone.poll();
        for (int left = FORGOTTEN_MAX; each != null; each = --left > 0 ? gone.poll() : null) {
            int bucket = ((Entry<?>) each).bucket;
            buckets.set(bucket, without(buckets.get(bucket), null));
        }
    }

    /** Copy a chain without this key and without collected keys. Chains are never changed in place. */
    private Entry<T> without(Entry<T> chain, Object key) {
        Entry<T> rest = null;
        for (Entry<T> entry = chain; entry != null; entry = entry.next) {
            Object its = entry.get();
            if (its != null && its != key) {
                rest = new Entry<T>(its, entry.bucket, entry.value, rest, gone);
            }
        }
        return rest;
    }

    private int bucketOf(Object key) {
        int hash = System.identityHashCode(key);
        return (hash ^ hash >>> 15) & buckets.length() - 1;
    }
}
