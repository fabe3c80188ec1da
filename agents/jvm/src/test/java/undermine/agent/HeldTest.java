package undermine.agent;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class HeldTest {
    private final Held held = new Held();
    private final Object monitor = new Object();
    private final Object other = new Object();

    private static Call call() {
        return new Call(null, null, null, 1, null);
    }

    @Test
    void enteringAgainIsCounted() {
        Call first = call();
        synchronized (monitor) {
            assertFalse(held.enterAgain(monitor));
            held.push(monitor, first);
            assertTrue(held.enterAgain(monitor));
            assertTrue(held.enterAgain(monitor));
            assertFalse(held.enterAgain(other));
            assertTrue(held.leaveAgain(monitor));
            assertTrue(held.leaveAgain(monitor));
            assertFalse(held.leaveAgain(monitor));
            assertSame(first, held.pop(monitor));
            assertNull(held.pop(monitor));
        }
    }

    @Test
    void whatIsBehindStaysWhatItIs() {
        Call second = call();
        synchronized (monitor) {
            synchronized (other) {
                held.push(monitor, call());
                held.push(other, second);
                assertTrue(held.enterAgain(other));
                held.pop(monitor);
                assertTrue(held.leaveAgain(other));
                assertSame(second, held.pop(other));
            }
        }
    }

    @Test
    void aMonitorThatWasLeftUnseenIsEnteredAnew() {
        held.push(monitor, call());
        assertFalse(held.enterAgain(monitor));
        assertNull(held.pop(monitor));
    }
}
