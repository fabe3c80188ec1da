package undermine.agent.record;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import undermine.agent.operations.Call;
import undermine.agent.stacks.Site;
import undermine.agent.stacks.Stack;

class HeldMonitorsTest {
    private final HeldMonitors held = new HeldMonitors();
    private final Object monitor = new Object();
    private final Object other = new Object();

    private static Call call() {
        return new Call(null, null, null, 1, null);
    }

    private void push(Object entered, Call call) {
        MonitorUsers.at(entered).enter();
        held.push(entered, MonitorUsers.at(entered), call);
    }

    private void defer(Object entered) {
        MonitorUsers.at(entered).enter();
        held.defer(entered, MonitorUsers.at(entered), null);
    }

    @Test
    void enteringAgainIsCounted() {
        Call first = call();
        synchronized (monitor) {
            assertFalse(held.enterAgain(monitor));
            push(monitor, first);
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
    void removingAMonitorKeepsTheOthers() {
        Call second = call();
        synchronized (monitor) {
            synchronized (other) {
                push(monitor, call());
                push(other, second);
                assertTrue(held.enterAgain(other));
                held.pop(monitor);
                assertTrue(held.leaveAgain(other));
                assertSame(second, held.pop(other));
            }
        }
    }

    @Test
    void aMonitorThatWasLeftWithoutAHookIsEnteredAgain() {
        push(monitor, call());
        assertFalse(held.enterAgain(monitor));
        assertNull(held.pop(monitor));
    }

    @Test
    void anUncontendedMonitorIsDropped() {
        push(other, call());
        assertFalse(held.isDeferring());
        assertFalse(held.drop(other));
        defer(monitor);
        assertTrue(held.isDeferring());
        assertNull(held.entered(7));
        assertFalse(held.drop(other));
        assertTrue(held.drop(monitor));
        assertFalse(held.isDeferring());
        assertTrue(MonitorUsers.at(other).isOne());
    }

    @Test
    void aContendedMonitorIsNotDropped() {
        defer(monitor);
        assertFalse(MonitorUsers.at(monitor).enter());
        assertFalse(held.drop(monitor));
        MonitorUsers.at(monitor).leave();
        assertTrue(held.drop(monitor));
        assertTrue(MonitorUsers.at(monitor).enter());
        MonitorUsers.at(monitor).leave();
    }

    @Test
    void theStackAtTheEntryIsPartOfTheCurrentOne() {
        Site outer = new Site(1, "a:Run.run()#2");
        Site entering = new Site(2, "a:Log.add(int)#1");
        Site calling = new Site(3, "a:Log.add(int)#4");
        Site inner = new Site(4, "a:Disk.write()#1");
        Stack now = new Stack(1, new Site[] {inner, calling, outer}, 0);
        assertEquals(1, now.find(entering, 3));
        assertArrayEquals(new Site[] {entering, outer}, now.since(entering, 1));
    }

    @Test
    void aSiteOutsideTheStackWasCalledByItsInnermostFrame() {
        Site outer = new Site(1, "a:Run.run()#2");
        Site entering = new Site(2, "a:Log.add(int)#1");
        Stack now = new Stack(1, new Site[] {outer}, 0);
        assertEquals(-1, now.find(entering, 1));
        assertArrayEquals(new Site[] {entering, outer}, now.since(entering, -1));
    }
}
