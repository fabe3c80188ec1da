package undermine.agent.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import org.junit.jupiter.api.Test;
import undermine.agent.Given;

class SharedStateTest {
    private final ByteBuffer view = Given.shared();
    private final SharedState state = new SharedState(view);

    @Test
    void refusesOtherFiles() {
        assertThrows(IllegalArgumentException.class, () -> new SharedState(ByteBuffer.allocate(100)));
        assertThrows(IllegalArgumentException.class, () -> new SharedState(ByteBuffer.wrap("UMS2".getBytes())));
    }

    @Test
    void seesWhatTheToolWrites() {
        view.putInt(8, 77);
        view.put(13, (byte) 200);
        Given.step(view, 3, SharedState.ARMED);
        assertEquals(77, state.generation());
        assertEquals(200, state.stacksAsked());
        assertEquals(SharedState.ARMED, state.stepState(3));
        assertFalse(state.over(3));
        Given.step(view, 3, SharedState.OVER);
        assertTrue(state.over(3));
        assertFalse(state.over(2));
        Given.heal(view);
        assertTrue(state.over(2));
    }

    @Test
    void setsTheFlagsOfFirstOccurrences() {
        state.raise(65);
        assertEquals(1, view.get(65));
        assertTrue(state.flag(65));
        assertFalse(state.flag(66));
    }

    @Test
    void knowsCallersByTheirPort() {
        int slot = SharedState.slotOf(60001, 20001);
        assertEquals((60001 + 20001 * 40503) & 0xFFFF, slot);
        state.putCallerAt(slot, 60001, 3);
        assertEquals(3, state.callerAt(slot, 60001));
        assertEquals(0, state.callerAt(slot, 60002));
        assertEquals((byte) 0x61, view.get(Given.PORTS + 65536 + 2 * slot));
        assertEquals((byte) 0xEA, view.get(Given.PORTS + 65536 + 2 * slot + 1));
    }

    @Test
    void knowsNoCallersWithoutPorts() {
        view.putInt(16, 0);
        state.putCallerAt(5, 60001, 3);
        assertEquals(0, state.callerAt(5, 60001));
    }

    @Test
    void publishesTexts() {
        assertNull(state.text(2));
        state.publish(2, "leäder");
        assertEquals("leäder", state.text(2));
        assertEquals(2, view.getInt(Given.VARIABLES + 256));
        assertEquals(7, view.getShort(Given.VARIABLES + 260));
        state.publish(2, "");
        assertEquals("", state.text(2));
        state.publish(2, null);
        assertNull(state.text(2));
        assertEquals((short) 0xFFFF, view.getShort(Given.VARIABLES + 260));
    }

    @Test
    void givesUpOnASlotThatIsAlwaysWritten() {
        state.publish(1, "x");
        view.putInt(Given.VARIABLES + 128, 5);
        assertNull(state.text(1));
    }
}
