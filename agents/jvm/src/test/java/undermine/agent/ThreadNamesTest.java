package undermine.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import org.junit.jupiter.api.Test;

/** Threads of one name are told apart by numbers; a number that is free is used again. */
class ThreadNamesTest {
    private final ThreadNames names = new ThreadNames();

    private static Thread thread(String name) {
        return new Thread(null, null, name);
    }

    @Test
    void livingThreadsOfOneNameAreNumbered() {
        Thread first = thread("worker");
        Thread second = thread("worker");
        assertEquals("worker", names.take(first));
        assertEquals("worker#2", names.take(second));
        assertEquals("worker#3", names.take(thread("worker")));
        assertEquals("worker#2", names.get(second));
        names.giveBack(second);
        assertNull(names.get(second));
        assertEquals("worker#2", names.take(thread("worker")));
        names.giveBack(first);
        assertEquals("worker", names.take(thread("worker")));
    }

    @Test
    void aThreadKeepsWhatItWasCalledFirst() {
        Thread thread = thread("first");
        names.take(thread);
        thread.setName("second");
        assertEquals("first", names.take(thread));
    }

    @Test
    void namesOfThreadsWhoseEndWasNotSeenAreFree() throws InterruptedException {
        Thread ended = thread("worker");
        names.take(ended);
        ended.start();
        ended.join();
        assertEquals("worker", names.take(thread("worker")));
    }

    @Test
    void threadsWithoutNamesAreNumberedToo() {
        Thread first = thread("");
        assertEquals("?", names.take(first));
        assertEquals("?#2", names.take(thread("")));
        names.giveBack(first);
        assertEquals("?", names.take(thread("")));
    }

    @Test
    void nothingIsKeptOfManyThreadsThatEnded() throws InterruptedException {
        for (int i = 0; i < 600; i++) {
            Thread thread = thread("t" + i);
            names.take(thread);
            thread.start();
            thread.join();
        }
        assertEquals("t1", names.take(thread("t1")));
    }
}
