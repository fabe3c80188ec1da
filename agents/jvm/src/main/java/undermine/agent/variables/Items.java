package undermine.agent.variables;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.Collection;
import java.util.ConcurrentModificationException;
import java.util.HashSet;
import java.util.Hashtable;
import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicMarkableReference;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.atomic.AtomicStampedReference;

/**
 * Goes through the items of an array or of a container of the JDK. The classes are listed by name: their iterators run no
 * code of the target, wait for no lock and change nothing. Classes of the target that extend them are not opened.
 */
final class Items {
    /** Of larger containers only lists are opened. */
    static final int ITEMS_MAX = 4096;
    private static final int WRAPPERS_MAX = 8;
    private static final String WRAPPERS = "java.util.Collections$";
    private static final String CONCURRENT = "java.util.concurrent.";
    private static final String IMMUTABLE = "java.util.ImmutableCollections$";
    private static final Set<String> OPENED = new HashSet<String>(Arrays.asList(
            "java.util.HashMap", "java.util.LinkedHashMap", "java.util.TreeMap", "java.util.Hashtable", "java.util.Properties",
            "java.util.EnumMap", "java.util.IdentityHashMap", "java.util.concurrent.ConcurrentHashMap",
            "java.util.concurrent.ConcurrentSkipListMap", "java.util.Collections$EmptyMap", "java.util.Collections$SingletonMap",
            "java.util.ArrayList", "java.util.LinkedList", "java.util.Vector", "java.util.Stack", "java.util.Arrays$ArrayList",
            "java.util.ArrayDeque", "java.util.PriorityQueue", "java.util.concurrent.CopyOnWriteArrayList",
            "java.util.concurrent.ConcurrentLinkedQueue", "java.util.concurrent.ConcurrentLinkedDeque",
            "java.util.Collections$EmptyList", "java.util.Collections$SingletonList",
            "java.util.HashSet", "java.util.LinkedHashSet", "java.util.TreeSet", "java.util.RegularEnumSet",
            "java.util.JumboEnumSet", "java.util.concurrent.CopyOnWriteArraySet", "java.util.concurrent.ConcurrentSkipListSet",
            "java.util.concurrent.ConcurrentHashMap$KeySetView", "java.util.HashMap$KeySet", "java.util.Collections$EmptySet",
            "java.util.Collections$SingletonSet"));

    final boolean isMap;
    /** True if the items have no order: those of sets and maps. */
    final boolean isUnordered;
    /** The number of all items. */
    final int size;
    /** The key of the current item: of a map its key, of a set the item itself, of a list its index. */
    Object key;
    Object value;
    private final Object array; // null: there is an iterator
    private final Iterator<?> iterator;
    /** True if the container may change while it is read. */
    private final boolean isConcurrent;
    private int index = -1;

    private Items(Object array, int size) {
        this.array = array;
        this.size = size;
        iterator = null;
        isConcurrent = false;
        isMap = false;
        isUnordered = false;
    }

    private Items(Collection<?> items, int size, boolean isMap, boolean isUnordered) {
        array = null;
        this.size = size;
        iterator = items.iterator();
        isConcurrent = items.getClass().getName().startsWith(CONCURRENT);
        this.isMap = isMap;
        this.isUnordered = isUnordered;
    }

    /** The items of a value; null if it isn't such a container. */
    static Items of(Object value) throws ReflectiveOperationException {
        if (value != null && value.getClass().isArray()) {
            return new Items(value, Array.getLength(value));
        }
        if (value instanceof AtomicIntegerArray || value instanceof AtomicLongArray || value instanceof AtomicReferenceArray) {
            return ofAtomics(value);
        }
        return value instanceof Map || value instanceof Collection ? ofContainer(value) : null;
    }

    private static Items ofContainer(Object value) throws ReflectiveOperationException {
        Object inner = value;
        boolean isKeySet = false;
        for (int i = 0; i < WRAPPERS_MAX && inner != null; i++) {
            String name = inner.getClass().getName();
            if (OPENED.contains(name) || name.startsWith(IMMUTABLE)) {
                return opened(inner, isKeySet);
            }
            isKeySet |= name.equals(WRAPPERS + "SetFromMap");
            inner = name.startsWith(WRAPPERS) ? wrapped(inner) : null;
        }
        return null;
    }

    private static Items opened(Object inner, boolean isKeySet) throws ReflectiveOperationException {
        if (inner instanceof Map) {
            Map<?, ?> map = (Map<?, ?>) inner;
            int size = map instanceof Hashtable ? counted(map.keySet().iterator()) : map.size();
            return new Items(isKeySet ? map.keySet() : map.entrySet(), size, !isKeySet, true);
        }
        if (inner instanceof Vector) { // its own methods wait for its monitor
            Field data = Fields.find(inner.getClass(), "elementData");
            Field count = Fields.find(inner.getClass(), "elementCount");
            Object[] elements = data == null || count == null ? new Object[0] : (Object[]) data.get(inner);
            return new Items(elements, elements.length == 0 ? 0 : Math.min(elements.length, (Integer) count.get(inner)));
        }
        Collection<?> items = (Collection<?>) inner;
        return new Items(items, items.size(), false, inner instanceof Set);
    }

    /** The number of items of a container whose own method would wait for its monitor. */
    private static int counted(Iterator<?> items) {
        int count = 0;
        while (count <= ITEMS_MAX && items.hasNext()) {
            items.next();
            count++;
        }
        return count;
    }

    /** The container in an unmodifiable, synchronized or checked one. Their own methods may wait for a monitor. */
    private static Object wrapped(Object wrapper) throws ReflectiveOperationException {
        Field field = Fields.find(wrapper.getClass(), wrapper instanceof Map ? "m" : "c");
        field = field == null ? Fields.find(wrapper.getClass(), "m") : field;
        return field == null ? null : field.get(wrapper);
    }

    private static Items ofAtomics(Object value) {
        boolean isInt = value instanceof AtomicIntegerArray;
        AtomicReferenceArray<?> references = value instanceof AtomicReferenceArray ? (AtomicReferenceArray<?>) value : null;
        int size = isInt ? ((AtomicIntegerArray) value).length()
                : references != null ? references.length() : ((AtomicLongArray) value).length();
        Object[] copy = new Object[size];
        for (int i = 0; i < copy.length; i++) {
            copy[i] = isInt ? (Object) ((AtomicIntegerArray) value).get(i)
                    : references != null ? references.get(i) : (Object) ((AtomicLongArray) value).get(i);
        }
        return new Items(copy, copy.length);
    }

    /** True if there are too many items to look at all of them. */
    boolean isLarge() {
        return size > ITEMS_MAX;
    }

    /** Go to the next item; false at the end. */
    boolean next() {
        index++;
        boolean isAtEnd = index >= (isConcurrent ? Math.max(size, ITEMS_MAX) : size);
        boolean hasNext = iterator == null ? !isAtEnd : iterator.hasNext();
        if (isAtEnd == hasNext && !isConcurrent) { // at its end, an iterator itself notices no change
            throw new ConcurrentModificationException();
        }
        if (isAtEnd || !hasNext) {
            return false;
        }
        Object item = iterator == null ? Array.get(array, index) : iterator.next();
        if (isMap) {
            key = ((Map.Entry<?, ?>) item).getKey();
            value = ((Map.Entry<?, ?>) item).getValue();
        } else {
            key = isUnordered ? item : (Object) index;
            value = item;
        }
        return true;
    }

    /** Go to the item whose key has this text; -1 is the index of the last item of a list. */
    boolean find(String text) {
        String wanted = !isUnordered && text.startsWith("-") ? String.valueOf(size + number(text)) : text;
        while (next()) {
            if (wanted.equals(Texts.plain(key))) {
                return true;
            }
        }
        return false;
    }

    private static int number(String text) {
        try {
            return Integer.parseInt(text);
        } catch (NumberFormatException noIndex) {
            return Integer.MIN_VALUE / 2;
        }
    }

    /** The value in an atomic reference or an optional; other values unchanged. */
    static Object unwrapped(Object value) {
        if (value instanceof AtomicReference) {
            return ((AtomicReference<?>) value).get();
        }
        if (value instanceof Optional) {
            Optional<?> optional = (Optional<?>) value;
            return optional.isPresent() ? optional.get() : null;
        }
        if (value instanceof OptionalInt) {
            return ((OptionalInt) value).isPresent() ? ((OptionalInt) value).getAsInt() : null;
        }
        if (value instanceof OptionalLong) {
            return ((OptionalLong) value).isPresent() ? ((OptionalLong) value).getAsLong() : null;
        }
        if (value instanceof OptionalDouble) {
            return ((OptionalDouble) value).isPresent() ? ((OptionalDouble) value).getAsDouble() : null;
        }
        if (value == null) {
            return null;
        }
        return value.getClass() == AtomicStampedReference.class ? ((AtomicStampedReference<?>) value).getReference()
                : value.getClass() == AtomicMarkableReference.class ? ((AtomicMarkableReference<?>) value).getReference() : value;
    }
}
