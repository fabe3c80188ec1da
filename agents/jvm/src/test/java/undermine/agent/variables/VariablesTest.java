package undermine.agent.variables;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.AbstractMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import undermine.agent.Given;
import undermine.agent.wire.SharedState;

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
        Map<String, List<Integer>> votes = Map.of("s2", List.of(5, 6));
        long[] terms = {7, 8};
        Object nothing;
        String longText = "ä".repeat(100);
    }

    private final SharedState state = new SharedState(Given.shared());

    private Variables variables(String path) {
        return new Variables("s1", List.of(Map.of("slots", Map.of("", 0L), "node", "s1", "name", "x", "path", path),
                Map.of("slots", Map.of("", 1L), "node", "s2", "name", "x", "path", path)));
    }

    private String published(String rest, Object... instances) {
        Variables variables = variables("undermine.agent.variables:VariablesTest.Peer." + rest);
        assertTrue(variables.watches(OWNER));
        for (Object instance : instances) {
            variables.made(OWNER, instance);
        }
        assertFalse(variables.reached(state, null));
        assertNull(state.text(1));
        return state.text(0);
    }

    @Test
    void staticFieldsAreFoundByTheLoaderOfTheirClass() {
        Variables variables = variables("undermine.agent.variables:VariablesTest.Peer.TERM");
        variables.loading(OWNER, getClass().getClassLoader());
        variables.publish(state);
        assertEquals("3", state.text(0));
    }

    @Test
    void otherFieldsAreThoseOfTheNewestInstance() {
        Peer old = new Peer();
        Peer newest = new Peer();
        newest.terms = new long[] {1, 9};
        assertEquals("9", published("terms[-1]", old, newest));
        assertEquals("FOLLOWING", published("role", old));
        assertEquals("LEADING", published("shared", old));
        assertEquals("6", published("votes[s2][1]", old));
        assertEquals("6", published("votes['s2'][1]", old));
        assertEquals("null", published("nothing", old));
    }

    @Test
    void missingAndComplexValuesAreAbsent() {
        Peer peer = new Peer();
        for (String rest : List.of("terms", "votes", "votes[s3]", "terms[5]", "terms[x]", "absent", "nothing.more")) {
            assertNull(published(rest, peer), rest);
        }
        assertNull(published("role"));
        Variables unknown = variables("nowhere:Nothing.x");
        unknown.publish(state);
        assertNull(state.text(0));
    }

    @Test
    void longTextsAreCutBetweenCharacters() {
        String text = published("longText", new Peer());
        assertEquals(55, text.indexOf('~'));
        assertTrue(text.getBytes(StandardCharsets.UTF_8).length <= 120);
        assertEquals(8, text.length() - 56);
    }

    /** A map whose values come from another thread, which itself publishes variables. */
    static final class Asking extends AbstractMap<String, List<Integer>> {
        Runnable asked;

        @Override
        public Set<Map.Entry<String, List<Integer>>> entrySet() {
            Runnable now = asked;
            asked = null;
            if (now != null) {
                now.run();
            }
            return Map.of("s2", List.of(5)).entrySet();
        }
    }

    @Test
    @Timeout(60)
    void noLockIsHeldWhileCodeOfTheTargetRuns() {
        Peer peer = new Peer();
        Asking asking = new Asking();
        peer.votes = asking;
        Variables variables = variables("undermine.agent.variables:VariablesTest.Peer.votes[s2][0]");
        variables.made(OWNER, peer);
        Thread other = new Thread(() -> variables.publish(state));
        asking.asked = () -> {
            other.start();
            assertDoesNotThrow(() -> other.join());
        };
        variables.publish(state);
        assertEquals("5", state.text(0));
    }

    @Test
    void refusesMalformedPaths() {
        for (String path : List.of("a.b.C.x", "a:", "a:C..x", "a:C.x[1")) {
            assertThrows(IllegalArgumentException.class, () -> variables(path), path);
        }
    }
}
