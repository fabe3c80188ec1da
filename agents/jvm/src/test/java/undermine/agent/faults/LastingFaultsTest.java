package undermine.agent.faults;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import undermine.agent.Given;
import undermine.agent.operations.Subject;

class LastingFaultsTest {
    private final ByteBuffer view = Given.shared();
    private final DecisionTable table = Given.table(view);
    private final Given.Tool tool = new Given.Tool();
    private final LastingFaults lasting = new LastingFaults(table.state, tool, Given.sockets(this::reset));
    private final List<String> resets = new ArrayList<>();

    /** Called where connections would be reset. */
    private void reset(List<?> nodes) {
        resets.add(nodes + " " + error("net.send", peer("s2")));
    }

    private void inForce(String entry) {
        lasting.welcome(0, Given.json("{'lasting': [" + entry + "]}"));
    }

    private String error(String op, Subject subject) {
        return lasting.errorOf(table.operation(op), subject);
    }

    private boolean holds(String op, Subject subject) {
        return lasting.holds(table.operation(op), subject);
    }

    private static Subject file(String path, boolean onDisk) {
        return new Subject("t", path, onDisk);
    }

    private static Subject peer(String node) {
        return new Subject("peer:" + node, "127.0.0.1:2", false);
    }

    @Test
    void aFileErrorMeetsThatFileAndBothEndsOfARename() {
        inForce("{'step': 0, 'kind': 'error', 'error': 'EIO', 'scope': 'file', 'value': '/d/a'}");
        assertTrue(lasting.any());
        assertEquals("EIO", error("file.write", file("/d/a", true)));
        assertNull(error("file.write", file("/d/b", true)));
        assertEquals("EIO", error("file.rename", file("/d/a -> /d/c", true)));
        assertEquals("EIO", error("file.rename", file("/d/c -> /d/a", true)));
        assertNull(error("file.rename", file("/d/aa -> /d/c", true)));
        assertEquals("EIO", error("db.write", file("/d/a", true)));
        assertNull(error("net.send", file("/d/a", false)));
    }

    @Test
    void aDiskErrorMeetsAllFilesOnItAndSparesClosing() {
        inForce("{'step': 0, 'kind': 'error', 'error': 'EIO', 'scope': 'disk', 'value': ''}");
        assertEquals("EIO", error("file.fsync", file("/d/a", true)));
        assertNull(error("file.fsync", file("/elsewhere", false)));
        for (String op : new String[] {"file.close", "file.stat", "file.map_read", "file.map_write"}) {
            assertNull(error(op, file("/d/a", true)), op);
        }
    }

    @Test
    void noSpaceMeetsOnlyOperationsThatNeedSpace() {
        inForce("{'step': 0, 'kind': 'error', 'error': 'ENOSPC', 'scope': 'disk', 'value': ''}");
        for (String op : new String[] {"file.write", "file.create", "file.mkdir", "db.write", "db.commit"}) {
            assertEquals("ENOSPC", error(op, file("/d/a", true)), op);
        }
        for (String op : new String[] {"file.open", "file.read", "file.fsync", "file.unlink", "file.rename"}) {
            assertNull(error(op, file("/d/a", true)), op);
        }
    }

    @Test
    void aPeerErrorMeetsOperationsWithThatPeer() {
        inForce("{'step': 0, 'kind': 'error', 'error': 'EPIPE', 'scope': 'peer', 'value': 'peer:s2'}");
        assertEquals("EPIPE", error("net.send", peer("s2")));
        assertNull(error("net.send", peer("s3")));
        assertNull(error("net.close", peer("s2")));
    }

    @Test
    void aPartitionWithErrorsMeetsItsDirections() {
        inForce("{'step': 0, 'kind': 'partition', 'peers': ['s2'], 'out': true, 'in': false, 'loss': 'error'}");
        assertEquals("ECONNRESET", error("net.send", peer("s2")));
        assertNull(error("net.recv", peer("s2")));
        assertEquals("EHOSTUNREACH", error("net.connect", peer("s2")));
        assertNull(error("net.send", peer("s3")));
        assertNull(error("net.send", new Subject("other", "x", false)));
        assertFalse(holds("net.send", peer("s2")));
    }

    @Test
    void aSilentPartitionHoldsAndRefusesConnections() {
        inForce("{'step': 0, 'kind': 'partition', 'peers': ['s2'], 'out': true, 'in': true, 'loss': 'silent'}");
        assertNull(error("net.send", peer("s2")));
        assertTrue(holds("net.send", peer("s2")));
        assertTrue(holds("net.recv", peer("s2")));
        assertFalse(holds("net.accept", peer("s2")));
        assertFalse(holds("net.send", peer("s3")));
        assertEquals("EHOSTUNREACH", error("net.connect", peer("s2")));
    }

    @Test
    void healingEndsAll() {
        inForce("{'step': 0, 'kind': 'partition', 'peers': ['s2'], 'out': true, 'in': true, 'loss': 'silent'}");
        Given.heal(view);
        assertNull(error("net.connect", peer("s2")));
        assertFalse(holds("net.send", peer("s2")));
    }

    @Test
    void connectionsAreResetOnceForEachStepBeforeTheEndIsSeen() {
        inForce("{'step': 0, 'kind': 'partition', 'peers': ['s2'], 'out': true, 'in': true, 'loss': 'error'}");
        inForce("{'step': 0, 'kind': 'reset', 'peers': ['s2']}");
        inForce("{'step': 0, 'kind': 'reset', 'peers': ['s2']}, {'step': 1, 'kind': 'reset', 'peers': ['s3']}");
        assertEquals(Arrays.asList("[s2] ECONNRESET", "[s3] null"), resets);
        assertNull(error("net.send", peer("s2")));
        assertFalse(lasting.any());
    }

    @Test
    void aPartitionWithErrorsHoldsUntilTheToolWasAskedAfterHealing() {
        inForce("{'step': 0, 'kind': 'partition', 'peers': ['s2'], 'out': true, 'in': true, 'loss': 'error'}");
        assertTrue(lasting.refusesSends(peer("s2")));
        view.putInt(8, 1);
        Given.heal(view);
        assertEquals("ECONNRESET", error("net.send", peer("s2")));
        tool.answering("lasting", "{'type': 'lasting', 'lasting': [{'step': 0, 'kind': 'reset', 'peers': ['s2']}]}");
        assertFalse(lasting.any());
        assertNull(error("net.send", peer("s2")));
        assertFalse(lasting.refusesSends(peer("s2")));
        assertEquals(1, resets.size());
    }

    @Test
    void anOldAnswerDoesNotReplaceANewerOne() {
        view.putInt(8, 2);
        lasting.welcome(2, Given.json("{'lasting': []}"));
        lasting.welcome(1, Given.json("{'lasting': [{'step': 0, 'kind': 'error', 'error': 'EIO', 'scope': 'disk'}]}"));
        assertFalse(lasting.any());
    }

    @Test
    void theToolIsAskedWhenTheGenerationChanged() {
        assertFalse(lasting.any());
        assertEquals(0, tool.asked.size());
        view.putInt(8, 5);
        tool.answering("lasting", "{'type': 'lasting', 'lasting': [{'step': 0, 'kind': 'error', 'error': 'EIO', "
                + "'scope': 'disk', 'value': ''}]}");
        assertTrue(lasting.any());
        assertTrue(lasting.any());
        assertEquals(1, tool.asked.size());
    }

    @Test
    void withoutAnAnswerNothingChanges() {
        inForce("{'step': 0, 'kind': 'error', 'error': 'EIO', 'scope': 'disk', 'value': ''}");
        view.putInt(8, 5);
        assertTrue(lasting.any());
        assertTrue(lasting.any());
        assertEquals(1, tool.asked.size());
    }

    @Test
    void anErrorOfThisAgentLastsForItsScope() {
        lasting.add(3, "EIO", "file", file("/d/a", true));
        assertEquals("EIO", error("file.read", file("/d/a", true)));
        assertNull(error("file.read", file("/d/b", true)));
        lasting.add(4, "EPIPE", "peer", peer("s3"));
        assertEquals("EPIPE", error("net.send", peer("s3")));
        lasting.add(5, "ENOSPC", "disk", file("/d/a", true));
        assertEquals("ENOSPC", error("file.write", file("/d/b", true)));
    }
}
