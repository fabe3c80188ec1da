package undermine.agent.stacks;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import undermine.agent.wire.Cursor;
import undermine.agent.wire.EventFile;

/** The tests of SitesTest with a walker that recognises stacks by exceptions. */
class TraceWalkerTest extends SitesTest {
    @TempDir
    Path other;

    /** Counts its walks. */
    private static final class Counting extends Walker {
        private final Walker walker = Walker.jdk();
        int asked;

        @Override
        Stack here(Sites sites, Cursor cursor) {
            asked++;
            return walker.here(sites, cursor);
        }
    }

    private final Counting counting = new Counting();

    @Override
    Walker walker() {
        Walker made = TraceWalker.over(counting);
        assertTrue(made instanceof TraceWalker);
        return made;
    }

    private Stack deep(Sites sites, Cursor cursor, int deeper) {
        return deeper > 0 ? deep(sites, cursor, deeper - 1) : sites.here(cursor);
    }

    /** Both calls have the same call site. */
    private Stack[] twice(Sites sites, Cursor cursor, int deeper) {
        Stack[] found = new Stack[2];
        for (int i = 0; i < 2; i++) {
            found[i] = deep(sites, cursor, deeper);
        }
        return found;
    }

    @Test
    void aStackIsWalkedOnceUnlessItIsVeryDeep() throws Exception {
        EventFile file = new EventFile(other.resolve("s1.1.2.events").toString());
        Sites own = new Sites(List.of("undermine.agent.none"), file, walker());
        Cursor cursor = new Cursor(file);
        for (int depth : new int[] {0, 20, 1}) {
            int before = counting.asked;
            Stack[] found = twice(own, cursor, depth);
            assertSame(found[0], found[1]);
            assertEquals(before + 1, counting.asked);
        }
        twice(own, cursor, 300);
        assertEquals(5, counting.asked);
    }
}
