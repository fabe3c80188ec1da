package undermine.agent.variables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.AbstractList;
import java.util.ArrayList;
import java.util.ConcurrentModificationException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import undermine.agent.Given;
import undermine.agent.wire.SharedState;

@Timeout(60)
class VariablesTest {
    private static final String OWNER = "undermine/agent/variables/VariablesTest$Peer";

    enum Role { LEADING, FOLLOWING }

    static class Base {
        private Role role = Role.FOLLOWING;
    }

    /** An example of a program's state. */
    static final class Peer extends Base {
        static int TERM = 3;
        final AtomicReference<Role> shared = new AtomicReference<>(Role.LEADING);
        Map<String, List<Integer>> votes = new LinkedHashMap<>(Map.of("s2", List.of(5, 6)));
        Map<Member, String> view = new HashMap<>();
        Set<Member> members = new HashSet<>();
        long[] terms = {7, 8};
        Object nothing;
        final Own own = new Own();
        ReentrantLock lock;
        final ReentrantReadWriteLock rows = new ReentrantReadWriteLock();
    }

    /** A container of the target: its methods must not be called. */
    static final class Own extends AbstractList<Integer> {
        @Override
        public Integer get(int index) {
            throw new AssertionError("called");
        }

        @Override
        public int size() {
            throw new AssertionError("called");
        }
    }

    /** A key whose methods must not be called. */
    static final class Member {
        final long id;
        Role role = Role.FOLLOWING;
        boolean isReading;

        Member(long id) {
            this.id = id;
        }

        @Override
        public int hashCode() {
            assertTrue(!isReading);
            return 1;
        }

        @Override
        public boolean equals(Object other) {
            assertTrue(!isReading);
            return this == other;
        }

        @Override
        public String toString() {
            throw new AssertionError("called");
        }
    }

    private final SharedState state = new SharedState(Given.shared());
    private final List<String> samples = new ArrayList<>();
    private final List<String> reasons = new ArrayList<>();
    private final Samples recorded = new Samples() {
        @Override
        public void changed(String name, String key, String text) {
            samples.add(key + "=" + text);
        }

        @Override
        public void leadsNowhere(String name, String why) {
            reasons.add(why);
        }
    };
    private final Peer peer = new Peer();

    private static Map<String, Object> description(String node, String path, Map<String, Long> slots) {
        return Map.of("slots", slots, "node", node, "name", "x", "path", path);
    }

    private static Variables variables(String path, Map<String, Long> slots) {
        return new Variables("s1", List.of(description("s1", path, slots), description("s2", path, Map.of("", 9L))), Map.of());
    }

    /** A variable of the peer. */
    private Variables of(String rest, Map<String, Long> slots) {
        Variables variables = variables("undermine.agent.variables:VariablesTest.Peer." + rest, slots);
        assertTrue(variables.watches(OWNER));
        variables.made(OWNER, peer);
        return variables;
    }

    /** The samples of one reading: `key=text`. */
    private List<String> read(Variables variables) {
        samples.clear();
        variables.read(state, recorded);
        return samples;
    }

    /** The reasons that one reading gives. */
    private List<String> reasons(String rest) {
        reasons.clear();
        of(rest, Map.of()).read(state, recorded);
        return reasons;
    }

    private String text(String rest) {
        Variables variables = of(rest, Map.of("", 0L));
        List<String> found = read(variables);
        assertEquals(1, found.size(), rest);
        assertEquals(found.get(0), "=" + state.text(0));
        assertNull(state.text(9));
        return state.text(0);
    }

    @Test
    void staticFieldsAreFoundByTheLoaderOfTheirClass() {
        Variables variables = variables("undermine.agent.variables:VariablesTest.Peer.TERM", Map.of());
        variables.loading(OWNER, getClass().getClassLoader());
        assertEquals(List.of("=3"), read(variables));
    }

    @Test
    void otherFieldsAreThoseOfTheNewestInstance() {
        Variables variables = of("terms[-1]", Map.of("", 0L));
        Peer newest = new Peer();
        newest.terms = new long[] {1, 9};
        variables.made(OWNER, newest);
        assertEquals(List.of("=9"), read(variables));
        assertEquals("FOLLOWING", text("role"));
        assertEquals("LEADING", text("shared"));
        assertEquals("6", text("votes[s2][1]"));
        assertEquals("6", text("votes['s2'][1]"));
        assertEquals("null", text("nothing"));
        assertEquals("[7, 8]", text("terms"));
    }

    @Test
    void valuesThatCannotBeReachedAreAbsent() {
        for (String rest : List.of("votes[s3]", "terms[5]", "terms[-3]", "terms[x]", "absent", "nothing.more", "role[0]")) {
            assertNull(text(rest), rest);
        }
        Variables withoutInstance = variables("undermine.agent.variables:VariablesTest.Peer.role", Map.of());
        withoutInstance.loading(OWNER, getClass().getClassLoader());
        assertEquals(List.of("=null"), read(withoutInstance));
        assertEquals(List.of(), read(variables("undermine.agent.variables:VariablesTest.Peer.TERM", Map.of())), "not loaded");
    }

    @Test
    void thePartThatLeadsNowhereIsNamed() {
        peer.view.put(new Member(4), "up");
        Map<String, String> expected = new LinkedHashMap<>();
        expected.put("vote", "has no field vote (but votes)");
        expected.put("rolle", "has no field rolle (but role)");
        expected.put("unlike", "has no field unlike");
        expected.put("role.state", ".role (Role) has no field state");
        expected.put("nothing.more", ".nothing is null");
        expected.put("role[0]", ".role (Role) isn't a map, list or set");
        expected.put("votes[s3][0]", ".votes (LinkedHashMap) has no key s3");
        expected.put("votes[*][7]", ".votes[s2] (List12) has no key 7");
        expected.put("votes[*].id", ".votes[s2] (List12) has no field id");
        expected.put("members[*.id]", ".members (HashSet) has no element");
        expected.put("view[*]", ".view (HashMap) has no element with a plain key");
        expected.put("view[*.role.none]", ".view (HashMap) has no element with a plain key");
        expected.put("own[0]", ".own (Own) is a container that is never opened");
        for (Map.Entry<String, String> each : expected.entrySet()) {
            String where = each.getValue().startsWith(".") ? "" : " (Peer) ";
            assertEquals(List.of("VariablesTest.Peer" + where + each.getValue()), reasons(each.getKey()));
        }
        assertEquals(List.of(), reasons("votes[s2][0]"));
    }

    @Test
    void aClassThatIsNotLoadedOrHasNoInstanceIsNamed() {
        variables("no.such:Thing.Inner.x", Map.of()).read(state, recorded);
        Variables withoutInstance = variables("undermine.agent.variables:VariablesTest.Peer.role", Map.of());
        withoutInstance.loading(OWNER, getClass().getClassLoader());
        withoutInstance.read(state, recorded);
        assertEquals(
                List.of("the class no.such.Thing.Inner isn't loaded", "the class VariablesTest.Peer has no instance"), reasons);
    }

    @Test
    void reasonsAreRecordedOnceUntilTheFirstValue() {
        Variables variables = of("nothing.id", Map.of());
        for (Object value : new Object[] {null, null, "text", null, new Member(4), null}) {
            peer.nothing = value;
            variables.read(state, recorded);
        }
        String where = "VariablesTest.Peer.nothing";
        assertEquals(List.of(where + " is null", where + " (String) has no field id"), reasons);
    }

    @Test
    void onlyChangesAreRecorded() {
        Variables variables = of("nothing", Map.of("", 0L));
        assertEquals(List.of("=null"), read(variables));
        assertEquals(List.of(), read(variables));
        peer.nothing = 1;
        assertEquals(List.of("=1"), read(variables));
        assertEquals("1", state.text(0));
    }

    @Test
    void everyKeyIsAVariable() {
        Variables variables = of("votes[*][0]", Map.of("s2", 0L, "s3", 1L));
        state.publish(1, "of an earlier incarnation");
        assertEquals(List.of("s2=5"), read(variables));
        assertEquals("5", state.text(0));
        assertNull(state.text(1));
        peer.votes.put("s3", List.of(7));
        assertEquals(List.of("s3=7"), read(variables));
        assertEquals("7", state.text(1));
        peer.votes.remove("s2");
        peer.votes.put("s4", List.of());
        assertEquals(List.of("s2=null"), read(variables));
        assertNull(state.text(0));
    }

    @Test
    void keysOfSeveralLevelsAreJoined() {
        peer.votes.put("s3", List.of(7));
        Variables variables = of("votes[*][*]", Map.of());
        assertEquals(Set.of("s2,0=5", "s2,1=6", "s3,0=7"), new HashSet<>(read(variables)));
    }

    @Test
    void aFieldNamesKeysThatAreObjects() {
        Member member = new Member(4);
        peer.view.put(member, "up");
        peer.members.add(member);
        member.isReading = true;
        assertEquals(List.of("4=up"), read(of("view[*.id]", Map.of())));
        assertEquals(List.of("4=FOLLOWING"), read(of("members[*.id].role", Map.of())));
        assertEquals(List.of(), read(of("view[*]", Map.of())), "a key without a text");
        assertEquals(List.of(), read(of("view[*.role.none]", Map.of())));
        assertEquals("{<Member>}", text("view"));
    }

    @Test
    void theKeysThatComeFirstInOrderAreRead() {
        for (int i = 0; i < 300; i++) {
            peer.votes.put(String.format("k%03d", i), List.of(i));
        }
        List<String> found = read(of("votes[*][0]", Map.of()));
        assertEquals(VariablePath.KEYS_MAX, found.size());
        assertTrue(found.contains("k000=0") && found.contains("k255=255"));
        for (int i = 0; i < Items.ITEMS_MAX; i++) {
            peer.votes.put("m" + i, List.of(i));
        }
        assertEquals(List.of(), read(of("votes[*][0]", Map.of())));
        assertNull(text("votes[s2][0]"));
        assertEquals("{…" + peer.votes.size() + "}", text("votes"));
    }

    /** A root whose variables change while they are read. */
    private static final class Changing extends VariableRoot {
        private final Peer peer;
        int changes;
        boolean isChanging;

        Changing(Peer peer) {
            super("x");
            this.peer = peer;
        }

        @Override
        synchronized Object newest() {
            if (isChanging) {
                changes++;
                throw new ConcurrentModificationException();
            }
            return peer;
        }
    }

    @Test
    void aVariableThatChangesWhileItIsReadKeepsItsOldValues() {
        Changing root = new Changing(peer);
        Variable variable = new Variable("x", root, new VariablePath("a:Peer.votes[*][0]"), Map.of("s2", 0L));
        variable.publish(variable.read(), state, recorded);
        root.isChanging = true;
        variable.publish(variable.read(), state, recorded);
        assertEquals(List.of("s2=5"), samples);
        assertEquals("5", state.text(0));
        assertTrue(root.changes > 1);
    }

    @Test
    void containersOfTheTargetAreNotOpened() {
        assertEquals("<Own>", text("own"));
        assertNull(text("own[0]"));
        assertEquals(List.of(), read(of("own[*]", Map.of())));
    }

    /** Do something while another thread holds a lock. */
    private static void whileHeld(Lock lock, Runnable action) throws InterruptedException {
        CountDownLatch held = new CountDownLatch(1);
        CountDownLatch done = new CountDownLatch(1);
        Thread holder = new Thread(() -> {
            lock.lock();
            held.countDown();
            try {
                done.await();
            } catch (InterruptedException interrupt) {
                return;
            } finally {
                lock.unlock();
            }
        });
        holder.start();
        held.await();
        action.run();
        done.countDown();
        holder.join();
    }

    @Test
    void aReadingIsDiscardedWhileAnotherThreadHoldsTheOwnersLock() throws InterruptedException {
        peer.lock = new ReentrantLock();
        Variables variables = of("votes[*][0]", Map.of());
        peer.lock.lock();
        assertEquals(List.of("s2=5"), read(variables), "the own lock doesn't matter");
        peer.lock.unlock();
        peer.votes.put("s2", List.of(9));
        whileHeld(peer.lock, () -> {
            for (int i = 0; i < 20; i++) {
                assertEquals(List.of(), read(variables));
            }
            assertEquals(List.of("s2=9"), read(variables), "not for ever");
        });
        peer.votes.put("s2", List.of(10));
        whileHeld(peer.rows.writeLock(), () -> assertEquals(List.of(), read(variables)));
        whileHeld(peer.rows.readLock(), () -> assertEquals(List.of("s2=10"), read(variables)));
    }

    @Test
    void theOwnerOfAContainerBehindAKeyCounts() throws InterruptedException {
        peer.lock = new ReentrantLock();
        peer.nothing = Map.of("rack", Map.of("s2", new Member(2)));
        Variables variables = of("nothing[rack][*].role", Map.of());
        whileHeld(peer.lock, () -> assertEquals(List.of(), read(variables)));
        assertEquals(List.of("s2=FOLLOWING"), read(variables));
    }

    @Test
    void refusesMalformedPaths() {
        for (String path : List.of("a.b.C.x", "a:", "a:C..x", "a:C.x[1")) {
            assertThrows(IllegalArgumentException.class, () -> variables(path, Map.of()), path);
        }
    }
}
