package undermine.agent.record;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import undermine.agent.Given;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;

/** A thread is in a handler after it has received, and knows the accesses of it. */
class CurrentHandlerTest {
    private final CurrentHandler handler = new CurrentHandler();

    private void begin(String name, Operation.Handling handling, long size) {
        Operation operation = new Operation(name, false);
        operation.handling = handling;
        handler.begin(operation, new Subject("job", "", false), Given.stack("app:Main.run#1", "app:Main.main#0"), size);
    }

    @Test
    void aReceiveBeginsAHandler() {
        assertEquals(0, handler.number);
        assertEquals("", handler.kind());
        begin("net.recv", Operation.Handling.OPENS, 0);
        assertEquals(1, handler.number);
        assertEquals("net.recv app:Main.run", handler.kind());
    }

    @Test
    void onlyAPauseWithALimitBeginsAHandler() {
        begin("cond.wait", Operation.Handling.PAUSES, 0);
        assertEquals(0, handler.number);
        begin("sleep", Operation.Handling.PAUSES, 1000);
        assertEquals(1, handler.number);
        begin("sleep", Operation.Handling.PAUSES, 1000);
        assertEquals(1, handler.number);
    }

    @Test
    void accessesAreKnownUntilTheNextRound() {
        begin("net.recv", Operation.Handling.OPENS, 0);
        for (long access = 0; access < 1000; access++) {
            assertFalse(handler.has(access));
            handler.add(access);
        }
        for (long access = 0; access < 1000; access++) {
            assertTrue(handler.has(access));
        }
        begin("sleep", Operation.Handling.PAUSES, 1000);
        assertFalse(handler.has(1));
    }

    @Test
    void theTableHasALimit() {
        begin("net.recv", Operation.Handling.OPENS, 0);
        for (long access = 0; access < 100_000; access++) {
            handler.add(access);
        }
        assertTrue(handler.has(99_999));
    }
}
