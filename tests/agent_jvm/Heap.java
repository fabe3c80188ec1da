import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/** A program whose accesses to the heap are known. Each scenario is a method. */
public class Heap {
    enum Phase { NEW, DONE }

    /** Something that handlers share. */
    static class Jobs {
        final Map<String, Job> all = new HashMap<>();
        final Map<Integer, Job> numbered = new ConcurrentHashMap<>();
        final Set<Long> sessions = new HashSet<>();
        final List<Job> order = new ArrayList<>();
        final long[] counts = new long[4];
        final boolean[] flags = new boolean[2];
        final Job[] slots = new Job[2];
        final AtomicBoolean open = new AtomicBoolean();
        final AtomicLong epoch = new AtomicLong(7);
        Phase phase = Phase.NEW;
        int size;
        long total;
        double share;
        float weight;
        char mark;
        byte[] data = new byte[8];
    }

    static class Job {
        final String id;
        boolean committed;
        Job next;

        Job(String id) {
            this.id = id;
        }
    }

    /** Fields before and behind the call of the other constructor. */
    static class Special extends Job {
        long count = 3;
        double share = 2.5;
        final Object outer;

        Special(String id, Object outer) {
            super(id == null ? new String("none") : id.concat(new StringBuilder("!").toString()));
            this.outer = outer;
            count += count > 2 ? 1L : 0L;
        }

        Special() {
            this("x", new Job("outer"));
        }
    }

    static Jobs jobs = new Jobs();
    static long last;
    static double ratio;
    static int level;
    static final Map<String, String> NAMES = Collections.synchronizedMap(new HashMap<>());

    public static void main(String[] names) throws Exception {
        for (String name : names) {
            Heap.class.getDeclaredMethod(name).invoke(null);
        }
    }

    /** Run each call in one thread, as the handler of an item that it takes from a queue. */
    private static void handle(Runnable... calls) throws InterruptedException {
        LinkedBlockingQueue<Object> items = new LinkedBlockingQueue<>();
        Thread worker = new Thread(() -> {
            for (Runnable call : calls) {
                take(items);
                call.run();
            }
        }, "worker");
        worker.start();
        for (int i = 0; i < calls.length; i++) {
            items.put("item");
        }
        worker.join();
    }

    private static void take(LinkedBlockingQueue<Object> items) {
        try {
            items.take();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    static void fields() throws Exception {
        jobs.phase = Phase.NEW;
        handle(() -> {
            jobs.phase = Phase.DONE;
            jobs.size += 2;
            jobs.total = 1L << 40;
            jobs.share = jobs.share + 0.5;
            jobs.weight = 2 * jobs.weight;
            jobs.mark = 'x';
            last = jobs.total;
            ratio = 0.25;
            level++;
            check(jobs.total == last && jobs.share == 0.5 && jobs.weight == 0 && ratio == 0.25 && level == 1);
        });
    }

    static void outside() throws Exception {
        jobs.size = 5;
        jobs.all.put("a", new Job("a"));
        jobs.counts[1]++;
        last = jobs.counts[1];
    }

    static void elements() throws Exception {
        handle(() -> {
            jobs.counts[1] += 3;
            jobs.flags[1] = true;
            jobs.slots[0] = new Job("a");
            jobs.slots[0].committed = true;
            jobs.data[0] = 3;
            check(jobs.counts[1] == 3 && jobs.flags[1] && jobs.data[0] == 3);
        });
    }

    static void maps() throws Exception {
        handle(() -> {
            check(jobs.all.get("a") == null);
            jobs.all.put("a", new Job("a"));
            jobs.all.get("a").committed = true;
            check(jobs.all.containsKey("a") && !jobs.all.isEmpty() && jobs.all.size() == 1);
            jobs.numbered.putIfAbsent(12, jobs.all.get("a"));
            jobs.numbered.putIfAbsent(12, null == last() ? null : new Job("b"));
            for (Job each : jobs.all.values()) {
                check(each.committed);
            }
            jobs.all.keySet().remove("a");
            check(jobs.all.remove("a") == null);
            NAMES.put("k", "v");
        });
    }

    private static Long last() {
        return last;
    }

    static void collections() throws Exception {
        handle(() -> {
            jobs.sessions.add(5L);
            jobs.sessions.add(5L);
            check(jobs.sessions.contains(5L));
            jobs.order.add(new Job("a"));
            jobs.order.add(new Job("b"));
            jobs.order.get(1).committed = true;
            Iterator<Job> all = jobs.order.iterator();
            all.next();
            all.remove();
            check(jobs.order.size() == 1);
            jobs.order.clear();
            jobs.open.set(true);
            check(jobs.open.compareAndSet(true, false) && !jobs.open.compareAndSet(true, false));
            check(jobs.epoch.incrementAndGet() == 8 && jobs.epoch.get() == 8);
        });
    }

    /** Objects that no static field leads to. */
    static void shared() throws Exception {
        Jobs mine = new Jobs();
        handle(() -> {
            Jobs local = new Jobs();
            local.size = 1;
            mine.size = local.size;
            mine.all.put("a", new Special());
        }, () -> {
            mine.all.get("a").committed = true;
            for (int i = 0; i < 3; i++) {
                mine.size++;
            }
        });
    }

    /** A loop that polls: the first thread is in no handler before it sleeps. */
    static void polling() throws Exception {
        AtomicLong rounds = new AtomicLong();
        Thread worker = new Thread(() -> {
            while (rounds.get() < 40) { // more often than the same access is recorded
                Thread.yield();
            }
            new File("begun").exists();
            jobs.size = 9;
        }, "worker");
        worker.start();
        while (jobs.size != 9) {
            Thread.sleep(1);
            rounds.incrementAndGet();
        }
        worker.join();
    }

    /** A list that is long, and a circle. */
    static void linked() throws Exception {
        handle(() -> {
            Job first = new Job("first");
            Job end = first;
            for (int i = 0; i < 5000; i++) {
                end.next = new Job("more");
                end = end.next;
            }
            end.next = first;
            jobs.slots[1] = first;
            Job each = first;
            for (int i = 0; i < 5000; i++) {
                each.committed = true;
                each = each.next;
            }
        });
    }

    /** More accesses than a process may record. Words in letters have different masked names. */
    static void full() throws Exception {
        handle(() -> {
            Map<String, String> names = NAMES;
            for (int i = 0; i < 200_100; i++) {
                char[] word = {'w', (char) ('a' + i % 26), (char) ('a' + i / 26 % 26), (char) ('a' + i / 676 % 26), (char) ('a' + i / 17576)};
                names.put(new String(word), "");
            }
        });
    }

    /** Everything that the weaver changes, in a thread and outside: it must do the same. */
    static void same() throws Exception {
        handle(Heap::behave, Heap::behave);
        behave();
        try {
            Job none = last == Long.MIN_VALUE ? new Job("") : null;
            none.committed = true;
            check(false);
        } catch (NullPointerException expected) {
            check(expected.getStackTrace()[0].getMethodName().equals("same"));
        }
    }

    private static void behave() {
        Special special = new Special(null, new Job(new Special("in", jobs).id));
        check(special.id.equals("none") && special.count == 4 && special.share == 2.5 && special.outer instanceof Job);
        check(new Special().id.equals("x!"));
        long[][] grid = {{1, 2}, {3, 4}};
        grid[1][0] += grid[0][1]--;
        check(Arrays.deepToString(grid).equals("[[1, 1], [5, 4]]"));
        Object[] objects = new String[1];
        try {
            objects[0] = 7;
            check(false);
        } catch (ArrayStoreException expected) {
            check(objects[0] == null);
        }
        try {
            grid[2][0] = 1;
            check(false);
        } catch (ArrayIndexOutOfBoundsException expected) {
            check(grid.length == 2);
        }
        double[] shares = {1, 2};
        shares[0] += shares[1];
        short[] shorts = {1};
        shorts[0] += 2;
        char[] letters = {'a'};
        letters[0]++;
        float[] floats = {0.5f};
        floats[0] *= 2;
        check(shares[0] == 3 && shorts[0] == 3 && letters[0] == 'b' && floats[0] == 1);
        collect();
    }

    private static void collect() {
        Deque<Integer> deque = new LinkedList<>();
        deque.push(1);
        deque.addLast(2);
        check(deque.pop() == 1 && deque.peek() == 2 && deque.pollLast() == 2 && deque.poll() == null);
        Map<Object, Collection<Long>> map = new HashMap<>();
        map.computeIfAbsent("k", key -> new ArrayList<>()).add(4L);
        map.merge("k", new ArrayList<>(), (one, other) -> one);
        check(map.getOrDefault("x", Collections.emptyList()).isEmpty() && map.get("k").iterator().next() == 4L);
        try {
            Collections.emptyMap().put(1, 2);
            check(false);
        } catch (UnsupportedOperationException expected) {
            check(map.size() == 1);
        }
        try {
            new ArrayList<Job>().get(0);
            check(false);
        } catch (IndexOutOfBoundsException expected) {
            check(true);
        }
    }

    private static void check(boolean isTrue) {
        if (!isTrue) {
            throw new AssertionError();
        }
    }
}
