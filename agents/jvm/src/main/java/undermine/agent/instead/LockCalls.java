package undermine.agent.instead;

import java.lang.reflect.Field;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.concurrent.locks.StampedLock;
import undermine.agent.names.ObjectNames;
import undermine.agent.operations.Call;
import undermine.agent.operations.Subject;
import undermine.agent.record.Observer;
import undermine.agent.record.Ops;
import undermine.agent.sync.HandoverHooks;

/** Called by the target instead of the methods of locks; each call is recorded. See ReplacedCalls. */
public final class LockCalls {
    private static final String BOTH = "java.util.concurrent.locks.ReentrantReadWriteLock";
    private static final Field READING = HandoverHooks.field(BOTH + "$ReadLock", "sync");
    private static final Field WRITING = HandoverHooks.field(BOTH + "$WriteLock", "sync");

    /**
     * The bits of a stamp that are set for a reader, in all JDKs. Not every JDK has a method for it, and the lock may be
     * a subclass of the target's.
     */
    private static final long READERS = 0x7f;

    private LockCalls() {
    }

    /**
     * The two sides of a read-write lock share a name, since a thread that waits at one side may wait for the holder of
     * the other.
     */
    private static Subject nameOf(Lock lock) {
        boolean isReading = lock instanceof ReentrantReadWriteLock.ReadLock;
        if (!isReading && !(lock instanceof ReentrantReadWriteLock.WriteLock)) {
            return ObjectNames.of("rlock", lock);
        }
        Subject known = ObjectNames.known(lock);
        return known != null ? known : ObjectNames.side(isReading ? "readlock" : "rlock", lock, bothOf(lock, isReading));
    }

    /** The object that both sides of a lock share. */
    private static Object bothOf(Lock side, boolean isReading) {
        try {
            Field field = isReading ? READING : WRITING;
            return field == null ? side : field.get(side);
        } catch (IllegalAccessException unknown) {
            return side;
        }
    }

    /**
     * How often this thread holds the lock; 0 also for locks that can't tell. Taking a lock again that the thread holds
     * is not an event.
     */
    private static int holds(Lock lock) {
        if (lock instanceof ReentrantLock) {
            return ((ReentrantLock) lock).getHoldCount();
        }
        boolean isWriting = lock instanceof ReentrantReadWriteLock.WriteLock;
        return isWriting ? ((ReentrantReadWriteLock.WriteLock) lock).getHoldCount() : 0;
    }

    /** Begin to take a lock; null: not recorded. */
    private static Call getting(Lock lock, long limit) {
        return holds(lock) > 0 ? null : Observer.begin(Ops.acquire, nameOf(lock), limit);
    }

    public static void lock(Lock lock) {
        Call call = getting(lock, 0);
        try {
            lock.lock();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 1);
    }

    public static void lockInterruptibly(Lock lock) throws InterruptedException {
        Call call = getting(lock, 0);
        try {
            lock.lockInterruptibly();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 1);
    }

    public static boolean tryLock(Lock lock) {
        Call call = getting(lock, 1);
        try {
            return Observer.end(call, lock.tryLock());
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
    }

    public static boolean tryLock(Lock lock, long time, TimeUnit unit) throws InterruptedException {
        Call call = getting(lock, Math.max(1, Observer.limit(time, unit)));
        try {
            return Observer.end(call, lock.tryLock(time, unit));
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
    }

    public static void unlock(Lock lock) {
        Call call = holds(lock) > 1 ? null : Observer.begin(Ops.release, nameOf(lock), 0);
        try {
            lock.unlock();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 1);
    }

    // --- stamped locks: readers and writers have the same lock, and several readers may have it at once

    private static Subject nameOf(StampedLock lock) {
        return ObjectNames.of("stamped", lock);
    }

    private static Subject readingOf(StampedLock lock) {
        return ObjectNames.reading("stamped", lock);
    }

    /** The subject of the side that this stamp releases. */
    private static Subject nameOf(StampedLock lock, long stamp) {
        return (stamp & READERS) == 0 ? nameOf(lock) : readingOf(lock);
    }

    private static long got(Call call, long stamp) {
        Observer.end(call, stamp != 0);
        return stamp;
    }

    public static long readLock(StampedLock lock) {
        return got(Observer.begin(Ops.acquire, readingOf(lock), 0), lock.readLock());
    }

    public static long writeLock(StampedLock lock) {
        return got(Observer.begin(Ops.acquire, nameOf(lock), 0), lock.writeLock());
    }

    public static long tryReadLock(StampedLock lock) {
        return got(Observer.begin(Ops.acquire, readingOf(lock), 1), lock.tryReadLock());
    }

    public static long tryWriteLock(StampedLock lock) {
        return got(Observer.begin(Ops.acquire, nameOf(lock), 1), lock.tryWriteLock());
    }

    public static long tryReadLock(StampedLock lock, long time, TimeUnit unit) throws InterruptedException {
        Call call = Observer.begin(Ops.acquire, readingOf(lock), Math.max(1, Observer.limit(time, unit)));
        try {
            return got(call, lock.tryReadLock(time, unit));
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
    }

    public static long tryWriteLock(StampedLock lock, long time, TimeUnit unit) throws InterruptedException {
        Call call = Observer.begin(Ops.acquire, nameOf(lock), Math.max(1, Observer.limit(time, unit)));
        try {
            return got(call, lock.tryWriteLock(time, unit));
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
    }

    public static long readLockInterruptibly(StampedLock lock) throws InterruptedException {
        Call call = Observer.begin(Ops.acquire, readingOf(lock), 0);
        try {
            return got(call, lock.readLockInterruptibly());
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
    }

    public static long writeLockInterruptibly(StampedLock lock) throws InterruptedException {
        Call call = Observer.begin(Ops.acquire, nameOf(lock), 0);
        try {
            return got(call, lock.writeLockInterruptibly());
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
    }

    public static void unlockRead(StampedLock lock, long stamp) {
        Observer.record(Ops.release, readingOf(lock), 0);
        lock.unlockRead(stamp);
    }

    public static void unlockWrite(StampedLock lock, long stamp) {
        Observer.record(Ops.release, nameOf(lock), 0);
        lock.unlockWrite(stamp);
    }

    public static void unlock(StampedLock lock, long stamp) {
        Observer.record(Ops.release, nameOf(lock, stamp), 0);
        lock.unlock(stamp);
    }

    // --- semaphores

    private static Subject nameOf(Semaphore semaphore) {
        return ObjectNames.of("semaphore", semaphore);
    }

    public static void acquire(Semaphore semaphore) throws InterruptedException {
        acquire(semaphore, 1);
    }

    public static void acquire(Semaphore semaphore, int count) throws InterruptedException {
        Call call = Observer.begin(Ops.semAcquire, nameOf(semaphore), 0);
        try {
            semaphore.acquire(count);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 1);
    }

    public static void acquireUninterruptibly(Semaphore semaphore) {
        acquireUninterruptibly(semaphore, 1);
    }

    public static void acquireUninterruptibly(Semaphore semaphore, int count) {
        Call call = Observer.begin(Ops.semAcquire, nameOf(semaphore), 0);
        semaphore.acquireUninterruptibly(count);
        Observer.end(call, 1);
    }

    public static boolean tryAcquire(Semaphore semaphore) {
        return tryAcquire(semaphore, 1);
    }

    public static boolean tryAcquire(Semaphore semaphore, int count) {
        Call call = Observer.begin(Ops.semAcquire, nameOf(semaphore), 1);
        return Observer.end(call, semaphore.tryAcquire(count));
    }

    public static boolean tryAcquire(Semaphore semaphore, long time, TimeUnit unit) throws InterruptedException {
        return tryAcquire(semaphore, 1, time, unit);
    }

    public static boolean tryAcquire(Semaphore semaphore, int count, long time, TimeUnit unit) throws InterruptedException {
        Call call = Observer.begin(Ops.semAcquire, nameOf(semaphore), Math.max(1, Observer.limit(time, unit)));
        try {
            return Observer.end(call, semaphore.tryAcquire(count, time, unit));
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
    }

    public static void release(Semaphore semaphore) {
        release(semaphore, 1);
    }

    public static void release(Semaphore semaphore, int count) {
        Call call = Observer.begin(Ops.semRelease, nameOf(semaphore), 0);
        semaphore.release(count);
        Observer.end(call, 1);
    }
}
