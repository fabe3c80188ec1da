package undermine.agent.faults;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import undermine.agent.Given;
import undermine.agent.lib.JsonValues;
import undermine.agent.operations.Call;
import undermine.agent.process.Death;
import undermine.agent.net.Endpoint;
import undermine.agent.wire.Cursor;
import undermine.agent.wire.EventFile;
import undermine.agent.wire.SharedState;

class FaultsTest {
    private static final String PARTITION =
            "{'lasting': [{'kind': 'partition', 'peers': ['s2'], 'out': true, 'in': true, 'loss': 'silent'}]}";

    @TempDir
    Path dir;
    private final ByteBuffer view = Given.shared();
    private final Given.Tool tool = new Given.Tool().answering("claim", "{'type': 'go'}");
    private final List<String> deeds = new ArrayList<>();
    private EventFile file;
    private Cursor cursor;
    private DecisionTable table;
    private LastingFaults lasting;

    @BeforeEach
    void open() throws IOException {
        file = new EventFile(dir.resolve("x.events").toString());
        cursor = new Cursor(file);
        Given.step(view, 0, SharedState.ARMED);
    }

    private Given.Receipts receipts() throws IOException {
        return new Given.Receipts(dir.resolve("x.events"));
    }

    private Faults faults(String fault, String place) {
        return faultsAt("{'match': {}, 'place': '" + place + "', 'nth': 1}", fault);
    }

    private Faults faultsAt(String half, String fault) {
        table = Given.table(view, "{'step': 0, 'first': null, 'second': " + half + ", 'fault': " + fault + "}");
        lasting = new LastingFaults(table.state, tool, new Endpoint());
        return new Faults(table, tool, lasting, file, new Recorded(), new Endpoint());
    }

    private Call call(String op, String target) {
        return Given.call(table, op, target, "app:Main.run#1", cursor);
    }

    /** A death that is only noted. */
    private final class Recorded extends Death {
        Recorded() {
            super(0, 0, "", null);
        }

        @Override
        public Prepared prepare() {
            deeds.add("prepare");
            return new Prepared() {
                @Override
                public void strike() {
                    try {
                        deeds.add("strike after " + receipts().texts.size());
                    } catch (IOException trouble) {
                        deeds.add(trouble.toString());
                    }
                }

                @Override
                public void drop() {
                    deeds.add("drop");
                }
            };
        }
    }

    @Test
    void aClaimSaysWhereAndWhat() {
        Faults faults = faults("{'fault': 'error', 'error': 'EIO', 'scope': 'once'}", "before");
        faults.before(call("file.write", "wal"));
        Map<String, Object> claim = tool.asked.get(0);
        assertNotNull(claim.remove("t_ns"));
        assertEquals(Given.json("{'type': 'claim', 'step': 0, 'half': 'second', 'node': 's1', 'incarnation': 2, 'pid': 42, "
                + "'seq': 7, 'point': {'op': 'file.write', 'loc': 'app:Main.run#1', 'node': 's1', 'role': 'store', "
                + "'target': 'wal', 'stack': '" + Given.stack("app:Main.run#1").digest() + "'}, "
                + "'resource': '/data/wal'}"), claim);
    }

    @Test
    void aClaimHasTheStateOfTheVariables() {
        Faults faults = faultsAt("{'match': {}, 'nth': 1, 'unseen': {'keys': ['state'], 'state': [[0], [0, 1]], 'seen': []}}",
                "{'fault': 'partition'}");
        table.state.publish(0, "5");
        faults.before(call("net.send", "peer:s2"));
        assertEquals("5, ∅", JsonValues.map(tool.asked.get(0).get("point")).get("state"));
    }

    @Test
    void anErrorOnceIsRaisedOnceWithItsReceipt() throws IOException {
        Faults faults = faults("{'fault': 'error', 'error': 'EIO', 'scope': 'once'}", "before");
        Call call = call("file.write", "wal");
        faults.before(call);
        assertEquals("Input/output error", call.error.getMessage());
        assertEquals(List.of("7 0 error before file.write wal: EIO once"), receipts().texts);
        Call next = call("file.write", "wal");
        faults.before(next);
        assertNull(next.error);
    }

    @Test
    void anErrorAfterTheOperation() throws IOException {
        Faults faults = faults("{'fault': 'error', 'error': 'ENOSPC', 'scope': 'disk'}", "after");
        Call call = call("file.write", "wal");
        faults.before(call);
        assertNull(call.error);
        faults.after(call);
        assertEquals("No space left on device", call.error.getMessage());
        assertEquals(List.of("7 0 error after file.write wal: ENOSPC disk"), receipts().texts);
        Call next = call("file.write", "other");
        faults.before(next);
        assertEquals("No space left on device", next.error.getMessage());
        Call read = call("file.read", "other");
        faults.before(read);
        assertNull(read.error);
    }

    @Test
    void withoutAGoNothingHappens() throws IOException {
        for (String answer : new String[] {"{'type': 'no'}", "{'type': 'go', 'external': true}", null}) {
            tool.answering("claim", answer);
            Call call;
            Faults faults = faults("{'fault': 'error', 'error': 'EIO', 'scope': 'disk'}", "before");
            faults.before(call = call("file.write", "wal"));
            assertNull(call.error);
            faults = faults("{'fault': 'crash', 'nodes': []}", "before");
            faults.before(call("file.write", "wal"));
        }
        assertEquals(List.of(), receipts().texts);
        assertEquals(List.of("prepare", "drop", "prepare", "drop", "prepare", "drop"), deeds);
    }

    @Test
    void aCrashWritesItsReceiptFirst() throws IOException {
        Faults faults = faults("{'fault': 'reboot', 'nodes': []}", "before");
        tool.whenAsked = () -> deeds.add("ask");
        faults.before(call("file.fsync", "wal"));
        assertEquals(List.of("prepare", "ask", "strike after 1", "drop"), deeds);
        assertEquals(List.of("7 0 reboot before file.fsync wal"), receipts().texts);
    }

    @Test
    void faultsOfTheToolAreOnlyClaimed() throws IOException {
        for (String fault : new String[] {"pause", "partition", "hold"}) {
            Faults faults = faults("{'fault': '" + fault + "'}", "before");
            Call call = call("file.write", "wal");
            faults.before(call);
            assertNull(call.error);
        }
        assertEquals(3, tool.asked.size());
        assertEquals(List.of(), receipts().texts);
    }

    @Test
    void untilIsClaimedAndNothingElse() throws IOException {
        table = Given.table(view, "{'step': 0, 'first': null, 'second': {'match': {'node': 's2'}}, 'fault': {'fault': "
                + "'crash'}, 'until': {'first': null, 'second': {'match': {}, 'nth': 1}}}");
        Faults faults = new Faults(table, tool, new LastingFaults(table.state, tool, new Endpoint()), file, new Recorded(), new Endpoint());
        Given.step(view, 0, SharedState.FIRED);
        faults.before(call("file.write", "wal"));
        assertEquals("until", tool.asked.get(0).get("half"));
        assertEquals(List.of(), receipts().texts);
        assertEquals(List.of(), deeds);
    }

    @Test
    void aDelayHasTwoReceipts() throws IOException {
        Faults faults = faults("{'fault': 'delay', 'delay_s': 0.03, 'mode': 'thread'}", "before");
        faults.before(call("file.write", "wal"));
        String text = "7 0 delay before file.write wal";
        assertEquals(List.of(text, text), receipts().texts);
        assertEquals(0, receipts().held.get(0));
        assertTrue(receipts().held.get(1) >= 30_000_000L);
    }

    @Test
    void aDelayEndsWithItsStepAndWithHealing() throws IOException {
        for (int how = 0; how < 2; how++) {
            Faults faults = faults("{'fault': 'delay', 'delay_s': 600}", "before");
            boolean heals = how == 1;
            tool.whenAsked = () -> {
                if (heals) {
                    Given.heal(view);
                } else {
                    Given.step(view, 0, SharedState.OVER);
                }
            };
            faults.before(call("file.write", "wal"));
            Given.step(view, 0, SharedState.ARMED);
        }
        assertEquals(4, receipts().held.size());
    }

    @Test
    void aDelayedThreadFindsItsInterruptAfterwards() throws IOException {
        Faults faults = faults("{'fault': 'delay', 'delay_s': 0.03}", "before");
        Thread.currentThread().interrupt();
        faults.before(call("file.write", "wal"));
        assertTrue(Thread.interrupted());
        assertTrue(receipts().held.get(1) >= 30_000_000L);
    }

    @Test
    void aDelayOfAChannelsOperationDoesNotBlockItsThread() throws IOException {
        Faults faults = faults("{'fault': 'delay', 'delay_s': 600, 'mode': 'operation'}", "before");
        Object channel = new Object();
        Call call = call("net.recv", "peer:s2");
        call.nonBlocking = true;
        call.handle = channel;
        faults.before(call);
        assertTrue(call.wouldBlock);
        assertTrue(faults.mustWait(call.operation, call.subject, channel, cursor));
        assertFalse(faults.mustWait(table.operation("net.send"), call.subject, channel, cursor));
        assertFalse(faults.mustWait(call.operation, call.subject, new Object(), cursor));
        Given.step(view, 0, SharedState.OVER);
        assertFalse(faults.mustWait(call.operation, call.subject, channel, cursor));
        String text = "7 0 delay before net.recv peer:s2: this operation only";
        assertEquals(List.of(text, text), receipts().texts);
        assertTrue(receipts().held.get(1) > 0);
    }

    @Test
    void aDelayOfABlockingOperationBlocksItsThread() throws IOException {
        Faults faults = faults("{'fault': 'delay', 'delay_s': 0.02, 'mode': 'operation'}", "before");
        Call call = call("net.send", "peer:s2");
        faults.before(call);
        assertFalse(call.wouldBlock);
        assertTrue(receipts().held.get(1) >= 20_000_000L);
    }

    @Test
    void behindASilentPartitionAChannelWouldBlock() {
        Faults faults = faults("{'fault': 'pause'}", "after");
        lasting.welcome(0, Given.json(PARTITION));
        Call call = call("net.send", "peer:s2");
        call.nonBlocking = true;
        faults.before(call);
        assertTrue(call.wouldBlock);
        assertTrue(faults.mustWait(call.operation, call.subject, new Object(), cursor));
        Given.heal(view);
        assertFalse(faults.mustWait(call.operation, call.subject, new Object(), cursor));
    }

    @Test
    void behindASilentPartitionAThreadWaitsUntilTheToolSaysItIsOver() {
        Faults faults = faults("{'fault': 'pause'}", "after");
        lasting.welcome(0, Given.json(PARTITION));
        tool.answering("lasting", PARTITION.replace("{'lasting'", "{'type': 'lasting', 'lasting'"));
        view.putInt(8, 1);
        tool.whenAsked = () -> { // the partition is over when the tool is asked again
            if (tool.asked.size() == 1) {
                view.putInt(8, 2);
                tool.answering("lasting", "{'type': 'lasting', 'lasting': []}");
            }
        };
        Call call = call("net.recv", "peer:s2");
        faults.before(call);
        assertNull(call.error);
        assertEquals(2, tool.asked.size());
    }

    @Test
    void behindASilentPartitionTimeLimitsAndClosingWork() throws IOException {
        Faults faults = faults("{'fault': 'pause'}", "after");
        lasting.welcome(0, Given.json(PARTITION));
        try (ServerSocket server = new ServerSocket(0); Socket socket = new Socket("127.0.0.1", server.getLocalPort())) {
            socket.setSoTimeout(10);
            Call call = call("net.recv", "peer:s2");
            call.handle = socket;
            faults.before(call);
            assertSame(SocketTimeoutException.class, call.error.getClass());
            socket.close();
            Call closed = call("net.send", "peer:s2");
            closed.handle = socket;
            faults.before(closed);
            assertNull(closed.error);
        }
    }

    @Test
    void behindASilentPartitionAnInterruptWakesAWaitingThread() throws IOException {
        Faults faults = faults("{'fault': 'pause'}", "after");
        lasting.welcome(0, Given.json(PARTITION));
        try (SocketChannel channel = SocketChannel.open()) {
            Call call = call("net.send", "peer:s2");
            call.handle = channel;
            Thread.currentThread().interrupt();
            faults.before(call);
            assertNull(call.error);
            assertTrue(Thread.interrupted());
        }
    }

    @Test
    void aPartitionWithErrorsAnswers() {
        Faults faults = faults("{'fault': 'pause'}", "after");
        lasting.welcome(0, Given.json(PARTITION.replace("silent", "error")));
        Call call = call("net.connect", "peer:s2");
        faults.before(call);
        assertEquals("No route to host", call.error.getMessage());
    }
}
