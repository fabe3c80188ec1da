package undermine.agent.variables;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/** Tells whether another thread holds a lock that an object has in one of its fields. Locks of the target's own classes don't count. */
final class OwnerLocks {
    private static final ClassValue<Field[]> BY_CLASS = new ClassValue<Field[]>() {
        @Override
        protected Field[] computeValue(Class<?> type) {
            return fields(type);
        }
    };

    private OwnerLocks() {
    }

    /** True for a lock in a field of the object or, if that is null, in a static field of the class. */
    static boolean isHeldElsewhere(Class<?> type, Object object) throws ReflectiveOperationException {
        for (Field field : BY_CLASS.get(type)) {
            boolean isMeant = object == null ? Modifier.isStatic(field.getModifiers()) && field.getDeclaringClass() == type
                    : !Modifier.isStatic(field.getModifiers());
            if (isMeant && isHeldElsewhere(field.get(object))) {
                return true;
            }
        }
        return false;
    }

    private static boolean isHeldElsewhere(Object lock) {
        if (lock == null) {
            return false;
        }
        if (lock.getClass() == ReentrantLock.class) {
            ReentrantLock mutex = (ReentrantLock) lock;
            return mutex.isLocked() && !mutex.isHeldByCurrentThread();
        }
        if (lock.getClass() == ReentrantReadWriteLock.class) {
            ReentrantReadWriteLock both = (ReentrantReadWriteLock) lock;
            return both.isWriteLocked() && !both.isWriteLockedByCurrentThread();
        }
        return false;
    }

    private static Field[] fields(Class<?> type) {
        List<Field> found = new ArrayList<Field>();
        for (Class<?> each = type; each != null && each.getClassLoader() != null; each = each.getSuperclass()) {
            for (Field field : each.getDeclaredFields()) {
                boolean isLock = Lock.class.isAssignableFrom(field.getType())
                        || ReadWriteLock.class.isAssignableFrom(field.getType());
                Field opened = isLock ? Fields.find(each, field.getName()) : null;
                if (opened != null) {
                    found.add(opened);
                }
            }
        }
        return found.toArray(new Field[0]);
    }
}
