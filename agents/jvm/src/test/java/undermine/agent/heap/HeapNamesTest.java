package undermine.agent.heap;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import undermine.agent.record.ThreadState;

/** Objects are named by their owners, else by their class. */
class HeapNamesTest {
    private static final String ROOT = "app:Main";
    private final HeapNames names = new HeapNames();

    /** The name for the current thread, or null. */
    private String nameOf(Object object) {
        HeapObject found = names.named(ThreadState.get(), object);
        return found == null ? null : found.name();
    }

    /** The name for another thread. */
    private String nameElsewhere(Object object) throws InterruptedException {
        String[] found = new String[1];
        Thread other = new Thread(() -> found[0] = nameOf(object));
        other.start();
        other.join();
        return found[0];
    }

    @Test
    void aPathBeginsAtAStaticField() {
        Map<String, Object> map = new HashMap<>();
        List<Object> list = new ArrayList<>();
        names.stored(ROOT, map, ".jobs");
        names.stored(map, list, "['a']");
        assertEquals("app:Main.jobs['a']", nameOf(list));
        assertEquals("app:Main.jobs", nameOf(map));
    }

    @Test
    void theOwnerMayGetItsNameLater() {
        List<Object> inner = new ArrayList<>();
        List<Object> outer = new ArrayList<>();
        names.stored(outer, inner, ".inner");
        assertNull(nameOf(inner));
        names.stored(ROOT, outer, ".outer");
        assertEquals("app:Main.outer.inner", nameOf(inner));
    }

    @Test
    void theFirstStoreThatLeadsToARootCounts() {
        List<Object> list = new ArrayList<>();
        names.stored(new ArrayList<>(), list, ".local");
        names.stored(ROOT, list, ".first");
        names.stored(ROOT, list, ".second");
        assertEquals("app:Main.first", nameOf(list));
    }

    @Test
    void objectsWithoutAKeyAreNumbered() {
        List<Object> list = new ArrayList<>();
        names.stored(ROOT, list, ".all");
        List<Object> one = new ArrayList<>();
        List<Object> other = new ArrayList<>();
        names.stored(list, one, null);
        names.stored(list, other, null);
        assertEquals("app:Main.all[#2]", nameOf(other));
        assertEquals("app:Main.all[#1]", nameOf(one));
    }

    @Test
    void anObjectThatAnotherThreadUsesIsNamedByItsClass() throws InterruptedException {
        List<Object> list = new ArrayList<>();
        names.created(list, "Main.run#3");
        List<Object> inner = new ArrayList<>();
        names.stored(list, inner, "[0]");
        assertNull(nameOf(inner));
        assertEquals("java.util:ArrayList@Main.run#3 #1[0]", nameElsewhere(inner));
        assertEquals("java.util:ArrayList@Main.run#3 #1", nameOf(list));
        List<Object> second = new ArrayList<>();
        names.created(second, "Main.run#3");
        assertEquals("java.util:ArrayList@Main.run#3 #2", nameElsewhere(second));
    }

    @Test
    void circlesHaveNames() throws InterruptedException {
        List<Object> one = new ArrayList<>();
        List<Object> other = new ArrayList<>();
        names.stored(one, other, ".next");
        names.stored(other, one, ".next");
        names.stored(one, one, ".self");
        assertEquals("java.util:ArrayList #1.next", nameElsewhere(other));
        assertEquals("java.util:ArrayList #1", nameOf(one));
    }

    @Test
    void listsThatAreLinkedHaveShortNames() {
        Object first = new ArrayList<>();
        names.stored(ROOT, first, ".head");
        Object last = first;
        for (int i = 0; i < 100_000; i++) {
            Object next = new ArrayList<>();
            names.stored(last, next, ".next");
            if (i % 1000 > 0) {
                nameOf(next);
            }
            last = next;
        }
        assertTrue(nameOf(last).length() < 60, nameOf(last));
    }

    @Test
    void dataHasNoName() {
        assertEquals(false, names.names(new byte[1]));
        assertEquals(false, names.names("text"));
        assertEquals(false, names.names(List.of()));
        assertEquals(true, names.names(new long[1]));
    }
}
