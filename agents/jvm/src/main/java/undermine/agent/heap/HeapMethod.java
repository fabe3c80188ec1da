package undermine.agent.heap;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A method of a collection, a map or an atomic variable that reads or changes it.
 *
 * A row has the method's kind, its effect, and signatures. `O` in a signature stands for `Ljava/lang/Object;`.
 */
public final class HeapMethod {
    private static final String UTIL = "java/util/";
    private static final String JUC = UTIL + "concurrent/";
    private static final String OWNERS = "Map HashMap LinkedHashMap TreeMap SortedMap NavigableMap Hashtable IdentityHashMap"
            + " WeakHashMap EnumMap AbstractMap Properties Dictionary Collection AbstractCollection List AbstractList ArrayList"
            + " LinkedList AbstractSequentialList Vector Stack Set AbstractSet HashSet LinkedHashSet TreeSet SortedSet"
            + " NavigableSet EnumSet BitSet Queue AbstractQueue Deque ArrayDeque PriorityQueue Iterator ListIterator";
    private static final String CONCURRENT_OWNERS = "ConcurrentMap ConcurrentHashMap ConcurrentNavigableMap ConcurrentSkipListMap"
            + " ConcurrentSkipListSet ConcurrentHashMap$KeySetView CopyOnWriteArrayList CopyOnWriteArraySet"
            + " ConcurrentLinkedQueue ConcurrentLinkedDeque BlockingQueue BlockingDeque TransferQueue LinkedBlockingQueue"
            + " LinkedBlockingDeque ArrayBlockingQueue PriorityBlockingQueue DelayQueue SynchronousQueue LinkedTransferQueue";
    private static final String ATOMIC = JUC + "atomic/Atomic";

    /** The part of an object that a method acts on. */
    enum Kind {
        /** The entry of its first argument. */
        KEY,
        /** The element that is its first argument: a key of a set, any element otherwise. */
        ELEMENT,
        /** All of it: its size, its order, an unknown element. */
        WHOLE,
        /** A view or an iterator: the result has the name of the whole. */
        VIEW,
        /** The value of an atomic variable. */
        VALUE
    }

    /** The effect of a method, by its result. */
    enum Effect {
        READS,
        WRITES,
        /** Adds, and returns null if there was nothing before; otherwise it replaces. */
        PUTS,
        /** Adds if it returns null. */
        ADDS_IF_NULL,
        /** Adds if it returns true or nothing. */
        ADDS,
        /** Removes if it returns something other than null or false, or nothing. */
        REMOVES,
        /** Writes if it returns true. */
        WRITES_IF_TRUE
    }

    private static final Object[][] ROWS = {
        {Kind.KEY, Effect.READS, "get(O)O getOrDefault(OO)O containsKey(O)Z get(I)O elementAt(I)O get(I)I get(I)J get(I)Z"
            + " getProperty(Ljava/lang/String;)Ljava/lang/String;"},
        {Kind.KEY, Effect.PUTS, "put(OO)O setProperty(Ljava/lang/String;Ljava/lang/String;)O"},
        {Kind.KEY, Effect.ADDS_IF_NULL, "putIfAbsent(OO)O"},
        {Kind.KEY, Effect.REMOVES, "remove(O)O remove(OO)Z remove(I)O"},
        {Kind.KEY, Effect.WRITES, "set(IO)O replace(OO)O set(II)V set(IJ)V set(IO)V set(I)V clear(I)V incrementAndGet(I)I"
            + " incrementAndGet(I)J getAndIncrement(I)I getAndIncrement(I)J addAndGet(II)I addAndGet(IJ)J"
            + " computeIfAbsent(OLjava/util/function/Function;)O computeIfPresent(OLjava/util/function/BiFunction;)O"
            + " compute(OLjava/util/function/BiFunction;)O merge(OOLjava/util/function/BiFunction;)O"},
        {Kind.KEY, Effect.WRITES_IF_TRUE, "replace(OOO)Z compareAndSet(III)Z compareAndSet(IJJ)Z compareAndSet(IOO)Z"},
        {Kind.ELEMENT, Effect.READS, "contains(O)Z indexOf(O)I lastIndexOf(O)I"},
        {Kind.ELEMENT, Effect.ADDS, "add(O)Z addElement(O)V addFirst(O)V addLast(O)V offer(O)Z offerFirst(O)Z offerLast(O)Z"
            + " push(O)V push(O)O put(O)V putFirst(O)V putLast(O)V addIfAbsent(O)Z transfer(O)V tryTransfer(O)Z"
            + " offer(OJLjava/util/concurrent/TimeUnit;)Z tryTransfer(OJLjava/util/concurrent/TimeUnit;)Z"},
        {Kind.ELEMENT, Effect.REMOVES, "remove(O)Z removeElement(O)Z removeFirstOccurrence(O)Z"},
        {Kind.WHOLE, Effect.READS, "size()I isEmpty()Z containsValue(O)Z containsAll(Ljava/util/Collection;)Z toArray()[O"
            + " toArray([O)[O first()O last()O firstKey()O lastKey()O firstEntry()Ljava/util/Map$Entry;"
            + " lastEntry()Ljava/util/Map$Entry; peek()O element()O peekFirst()O peekLast()O getFirst()O getLast()O"
            + " floor(O)O ceiling(O)O lower(O)O higher(O)O floorKey(O)O ceilingKey(O)O lowerKey(O)O higherKey(O)O"
            + " floorEntry(O)Ljava/util/Map$Entry; ceilingEntry(O)Ljava/util/Map$Entry; lowerEntry(O)Ljava/util/Map$Entry;"
            + " higherEntry(O)Ljava/util/Map$Entry; forEach(Ljava/util/function/Consumer;)V"
            + " forEach(Ljava/util/function/BiConsumer;)V stream()Ljava/util/stream/Stream; cardinality()I"},
        {Kind.WHOLE, Effect.ADDS, "add(IO)V addAll(Ljava/util/Collection;)Z addAll(ILjava/util/Collection;)Z"
            + " putAll(Ljava/util/Map;)V"},
        {Kind.WHOLE, Effect.WRITES, "sort(Ljava/util/Comparator;)V replaceAll(Ljava/util/function/BiFunction;)V"
            + " replaceAll(Ljava/util/function/UnaryOperator;)V"},
        {Kind.WHOLE, Effect.REMOVES, "clear()V removeAll(Ljava/util/Collection;)Z retainAll(Ljava/util/Collection;)Z"
            + " removeIf(Ljava/util/function/Predicate;)Z remove()V remove()O poll()O pollFirst()O pollLast()O removeFirst()O"
            + " removeLast()O pop()O take()O takeFirst()O takeLast()O poll(JLjava/util/concurrent/TimeUnit;)O"
            + " pollFirst(JLjava/util/concurrent/TimeUnit;)O pollLast(JLjava/util/concurrent/TimeUnit;)O"
            + " drainTo(Ljava/util/Collection;)I drainTo(Ljava/util/Collection;I)I pollFirstEntry()Ljava/util/Map$Entry;"
            + " pollLastEntry()Ljava/util/Map$Entry;"},
        {Kind.VIEW, Effect.READS, "iterator()Ljava/util/Iterator; listIterator()Ljava/util/ListIterator; keySet()Ljava/util/Set;"
            + " keySet()Ljava/util/concurrent/ConcurrentHashMap$KeySetView; values()Ljava/util/Collection;"
            + " entrySet()Ljava/util/Set; descendingIterator()Ljava/util/Iterator; descendingMap()Ljava/util/NavigableMap;"
            + " headMap(O)Ljava/util/SortedMap; tailMap(O)Ljava/util/SortedMap; headMap(OZ)Ljava/util/NavigableMap;"
            + " tailMap(OZ)Ljava/util/NavigableMap; subMap(OO)Ljava/util/SortedMap; subMap(OZOZ)Ljava/util/NavigableMap;"
            + " headSet(O)Ljava/util/SortedSet; tailSet(O)Ljava/util/SortedSet; subList(II)Ljava/util/List;"},
    };
    private static final Object[][] ATOMIC_ROWS = {
        {Kind.VALUE, Effect.READS, "get()Z get()I get()J get()O intValue()I longValue()J"},
        {Kind.VALUE, Effect.WRITES, "set(Z)V set(I)V set(J)V set(O)V lazySet(Z)V lazySet(I)V lazySet(J)V lazySet(O)V"
            + " getAndSet(Z)Z getAndSet(I)I getAndSet(J)J getAndSet(O)O incrementAndGet()I incrementAndGet()J"
            + " decrementAndGet()I decrementAndGet()J getAndIncrement()I getAndIncrement()J getAndDecrement()I"
            + " getAndDecrement()J addAndGet(I)I addAndGet(J)J getAndAdd(I)I getAndAdd(J)J"
            + " updateAndGet(Ljava/util/function/UnaryOperator;)O getAndUpdate(Ljava/util/function/UnaryOperator;)O"},
        {Kind.VALUE, Effect.WRITES_IF_TRUE, "compareAndSet(ZZ)Z compareAndSet(II)Z compareAndSet(JJ)Z compareAndSet(OO)Z"},
    };

    static final Set<String> COLLECTIONS = new HashSet<String>();
    static final Map<String, HeapMethod> OF_COLLECTIONS = new HashMap<String, HeapMethod>();
    static final Map<String, HeapMethod> OF_ATOMICS = new HashMap<String, HeapMethod>();
    private static final List<HeapMethod> ALL = new ArrayList<HeapMethod>();

    static {
        COLLECTIONS.add("java/lang/Iterable");
        for (String each : OWNERS.split(" ")) {
            COLLECTIONS.add(UTIL + each);
        }
        for (String each : CONCURRENT_OWNERS.split(" ")) {
            COLLECTIONS.add(JUC + each);
        }
        put(OF_COLLECTIONS, ROWS);
        put(OF_ATOMICS, ATOMIC_ROWS);
        for (String each : Arrays.asList("Integer", "Long", "Reference")) { // arrays of atomic variables have keys
            COLLECTIONS.add(ATOMIC + each + "Array");
        }
    }

    /** Woven code refers to a method by its number. */
    public final int number;
    final Kind kind;
    final Effect effect;
    /** The numbers of the arguments, from 0, that are the key and the value; less than 0: none. */
    public final int key;
    public final int value;

    private HeapMethod(int number, Kind kind, Effect effect, String signature) {
        this.number = number;
        this.kind = kind;
        this.effect = effect;
        boolean hasKey = kind == Kind.KEY || kind == Kind.ELEMENT;
        key = hasKey ? 0 : -1;
        value = valueOf(kind, signature.substring(signature.indexOf('(') + 1, signature.indexOf(')')));
    }

    /** The last argument that may be stored there. */
    private static int valueOf(Kind kind, String parameters) {
        if (kind == Kind.ELEMENT) {
            return 0;
        }
        if (kind == Kind.VALUE) {
            return parameters.isEmpty() || parameters.startsWith("L") ? -1 : parameters.length() - 1;
        }
        return parameters.startsWith("OO") || parameters.startsWith("IO") ? parameters.startsWith("OOO") ? 2 : 1 : -1;
    }

    private static void put(Map<String, HeapMethod> into, Object[][] rows) {
        for (Object[] row : rows) {
            for (String signature : ((String) row[2]).split(" ")) {
                HeapMethod method = new HeapMethod(ALL.size(), (Kind) row[0], (Effect) row[1], signature);
                ALL.add(method);
                int open = signature.indexOf('(');
                into.put(signature.substring(0, open) + signature.substring(open).replaceAll("O(?![a-z])", "Ljava/lang/Object;"), method);
            }
        }
    }

    /** The method of this class of the JDK, or null if it accesses nothing. */
    public static HeapMethod of(String owner, String name, String descriptor) {
        if (COLLECTIONS.contains(owner)) {
            return OF_COLLECTIONS.get(name + descriptor);
        }
        return owner.startsWith(ATOMIC) ? OF_ATOMICS.get(name + descriptor) : null;
    }

    /** True if its value may be kept. */
    boolean stores() {
        return value >= 0 && effect != Effect.READS && effect != Effect.REMOVES;
    }

    static HeapMethod at(int number) {
        return ALL.get(number);
    }
}
