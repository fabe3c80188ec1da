package undermine.agent.variables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Hashtable;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.Vector;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.AtomicStampedReference;
import java.util.concurrent.atomic.LongAdder;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class TextsTest {
    /** A number of the target, whose methods must not be called. */
    static final class Count extends Number {
        @Override
        public int intValue() {
            throw new AssertionError("called");
        }

        @Override
        public long longValue() {
            return intValue();
        }

        @Override
        public float floatValue() {
            return intValue();
        }

        @Override
        public double doubleValue() {
            return intValue();
        }

        @Override
        public String toString() {
            throw new AssertionError("called");
        }
    }

    /** A map of the target: its methods must not be called. */
    static final class OwnMap extends HashMap<String, Integer> {
        @Override
        public Set<Map.Entry<String, Integer>> entrySet() {
            throw new AssertionError("called");
        }
    }

    enum Role {
        LEADING {
            @Override
            public String toString() {
                throw new AssertionError("called");
            }
        }
    }

    private static void texts(Object... pairs) throws ReflectiveOperationException {
        for (int i = 0; i < pairs.length; i += 2) {
            assertEquals(pairs[i], Texts.of(pairs[i + 1]));
        }
    }

    @Test
    void plainValuesHaveTheirText() throws ReflectiveOperationException, UnknownHostException {
        UUID id = UUID.randomUUID();
        texts("null", null, "a", "a", "true", true, "x", 'x', "-3", (short) -3, "2.5", 2.5, "7", BigInteger.valueOf(7),
                "LEADING", Role.LEADING, id.toString(), id, "127.0.0.1", InetAddress.getByAddress("here", new byte[] {127, 0, 0, 1}),
                "10.0.0.1:80", new InetSocketAddress(InetAddress.getByAddress(new byte[] {10, 0, 0, 1}), 80),
                "far:80", InetSocketAddress.createUnresolved("far", 80));
    }

    @Test
    void atomicsAndOptionalsAreOpened() throws ReflectiveOperationException {
        LongAdder adder = new LongAdder();
        adder.add(4);
        texts("LEADING", new AtomicReference<>(Role.LEADING), "3", new AtomicLong(3), "false", new AtomicBoolean(), "4", adder,
                "a", Optional.of("a"), "null", Optional.empty(), "5", OptionalInt.of(5), "null", OptionalInt.empty(),
                "b", new AtomicStampedReference<>("b", 1), "[1, 2]", new AtomicLongArray(new long[] {1, 2}),
                "a", new AtomicReference<>("a"), "{1}", new AtomicReference<>(Set.of(1)));
    }

    @Test
    void listsKeepTheirOrderAndSetsAreSorted() throws ReflectiveOperationException {
        texts("[b, a]", Arrays.asList("b", "a"), "[b, a]", List.of("b", "a"), "[]", List.of(), "[2, 1]", new int[] {2, 1},
                "[b, null]", new Object[] {"b", null}, "[1]", new LinkedList<>(List.of(1)), "[1]", new ArrayDeque<>(List.of(1)),
                "[1]", new CopyOnWriteArrayList<>(List.of(1)), "[1, 2]", new Vector<>(List.of(1, 2)),
                "{a, b}", new HashSet<>(List.of("b", "a")), "{a, b}", Set.of("b", "a"), "{a}", new TreeSet<>(Set.of("a")),
                "{LEADING}", EnumSet.allOf(Role.class), "{LEADING}", new EnumMap<>(Map.of(Role.LEADING, 1)),
                "{a, b}", Map.of("b", 1, "a", 2), "{a}", new ConcurrentHashMap<>(Map.of("a", 1)),
                "{a}", keySet(), "{a}", new Hashtable<>(Map.of("a", 1)),
                "{}", Collections.emptyMap(), "{a}", Collections.singleton("a"), "[a]", Collections.singletonList("a"));
    }

    private static Set<String> keySet() {
        Set<String> found = ConcurrentHashMap.newKeySet();
        found.add("a");
        return found;
    }

    @Test
    void wrappersAreOpenedUnlessTheyHoldAContainerOfTheTarget() throws ReflectiveOperationException {
        Set<String> fromMap = Collections.newSetFromMap(new ConcurrentHashMap<>());
        fromMap.add("a");
        texts("{a}", Collections.unmodifiableMap(new HashMap<>(Map.of("a", 1))), "{a}", fromMap,
                "[a]", Collections.synchronizedList(Collections.unmodifiableList(new ArrayList<>(List.of("a")))),
                "{a}", Collections.unmodifiableSet(new TreeSet<>(Set.of("a"))),
                "<UnmodifiableMap>", Collections.unmodifiableMap(new OwnMap()), "<OwnMap>", new OwnMap(),
                "<LinkedBlockingQueue>", new LinkedBlockingQueue<>(List.of(1)));
    }

    @Test
    void noMonitorIsWaitedFor() throws InterruptedException, ReflectiveOperationException {
        Map<String, Integer> map = Collections.synchronizedMap(new HashMap<>(Map.of("a", 1)));
        Vector<Integer> vector = new Vector<>(List.of(1));
        Hashtable<String, Integer> table = new Hashtable<>(Map.of("b", 1));
        CountDownLatch held = new CountDownLatch(1);
        CountDownLatch done = new CountDownLatch(1);
        Thread holder = new Thread(() -> {
            synchronized (map) {
                synchronized (vector) {
                    synchronized (table) {
                        held.countDown();
                        await(done);
                    }
                }
            }
        });
        holder.start();
        held.await();
        texts("{a}", map, "[1]", vector, "{b}", table);
        done.countDown();
        holder.join();
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await(60, TimeUnit.SECONDS);
        } catch (InterruptedException interrupt) {
            Thread.currentThread().interrupt();
        }
    }

    @Test
    void otherObjectsHaveTheNameOfTheirClass() throws ReflectiveOperationException {
        Runnable lambda = () -> { };
        texts("<Count>", new Count(), "<TextsTest>", this, "<Object>", new Object(), "<TextsTest>", lambda,
                "[<Count>, 1]", Arrays.asList(new Count(), 1), "<TextsTest.1>", new Object() { });
    }

    @Test
    void containersAreOpenedTwoLevelsDeep() throws ReflectiveOperationException {
        texts("[[1], {a}, [<ListN>]]", Arrays.asList(Arrays.asList(1), Map.of("a", 2), Arrays.asList(List.of())));
    }

    @Test
    void largeContainersAreCut() throws ReflectiveOperationException {
        texts("[" + "0, ".repeat(32) + "…40]", new int[40], "[" + "0, ".repeat(31) + "0]", new int[32],
                "[" + "0, ".repeat(32) + "…5000]", new int[5000]);
        Set<Integer> many = new HashSet<>();
        for (int i = 0; i < Items.ITEMS_MAX; i++) {
            many.add(i);
        }
        assertTrue(Texts.of(many).startsWith("{0, 1, 10, 100, 1000, 1001"));
        many.add(-1);
        texts("{…4097}", many);
    }

    @Test
    void bytesAreTextIfTheyAreUtf8() throws ReflectiveOperationException {
        texts("ä", "ä".getBytes(StandardCharsets.UTF_8), "0xff00", new byte[] {(byte) 0xff, 0}, "", new byte[0]);
    }

    @Test
    void longTextsAreCutBetweenCharacters() throws ReflectiveOperationException {
        String text = Texts.of("ä".repeat(100));
        assertEquals(55, text.indexOf('~'));
        assertTrue(text.getBytes(StandardCharsets.UTF_8).length <= 120);
        assertEquals(8, text.length() - 56);
        assertEquals("a b", Texts.of("a\u001fb"));
    }
}
