package undermine.agent.process;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import org.junit.jupiter.api.Test;

/** The ids of a process, whatever its name is. */
class ProcessIdsTest {
    @Test
    void processNamesMayContainAnyCharacter() {
        ProcessIds self = new ProcessIds("42 (a ) (b) S 7 5 5 0 -1");
        assertEquals("42 7 5", self.pid + " " + self.parent + " " + self.group);
    }

    @Test
    void theIdsOfThisProcess() throws IOException {
        assertEquals(ProcessHandle.current().pid(), ProcessIds.read().pid);
        assertEquals(ProcessHandle.current().parent().map(ProcessHandle::pid).orElse(0L), ProcessIds.read().parent);
    }
}
