package undermine.agent.faults;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.List;
import org.junit.jupiter.api.Test;
import undermine.agent.Given;
import undermine.agent.operations.Call;
import undermine.agent.wire.SharedState;

class DecisionTableTest {
    private final ByteBuffer view = Given.shared();

    private static String step(String second, String fault) {
        return "{'step': 0, 'first': null, 'second': " + second + ", 'fault': {'fault': '" + fault + "'}, 'until': null}";
    }

    private boolean isReached(DecisionTable table, String place, String op) {
        return Given.isReached(table, place, Given.call(table, op, "wal"));
    }

    @Test
    void countsOccurrencesWhileTheStepIsArmed() {
        DecisionTable table = Given.table(view, step("{'match': {'op': 'file.write'}, 'place': 'before', 'nth': 2}", "crash"));
        assertFalse(isReached(table, "before", "file.write"));
        Given.step(view, 0, SharedState.ARMED);
        assertFalse(isReached(table, "before", "file.write"));
        assertFalse(isReached(table, "before", "file.read"));
        assertTrue(isReached(table, "before", "file.write"));
        assertFalse(isReached(table, "before", "file.write"));
        assertEquals(0, table.operation("file.write").after.length);
    }

    @Test
    void nothingIsReachedOnceAllIsHealed() {
        DecisionTable table = Given.table(view, step("{'match': {}, 'nth': 1}", "crash"));
        Given.step(view, 0, SharedState.ARMED);
        Given.heal(view);
        assertFalse(isReached(table, "before", "file.write"));
    }

    @Test
    void everyKeyMustBeEqual() {
        DecisionTable table = Given.table(view, step("{'match': {'op': 'file.write', 'loc': 'app:Log.put#3', 'target': 'wal', "
                + "'node': 's1', 'role': 'store', 'stack': '" + Given.stack("app:Log.put#3").digest()
                + "'}, 'nth': 1}", "crash"));
        Given.step(view, 0, SharedState.ARMED);
        assertFalse(Given.isReached(table, "before", Given.call(table, "file.write", "snap", "app:Log.put#3", null)));
        assertFalse(Given.isReached(table, "before", Given.call(table, "file.write", "wal", "app:Log.put#4", null)));
        assertTrue(Given.isReached(table, "before", Given.call(table, "file.write", "wal", "app:Log.put#3", null)));
    }

    @Test
    void anotherStackIsNotRecognised() {
        DecisionTable table = Given.table(view, step("{'match': {'stack': '000000000000'}, 'nth': 1}", "crash"));
        Given.step(view, 0, SharedState.ARMED);
        assertFalse(isReached(table, "before", "file.write"));
    }

    @Test
    void triggersOfOtherNodesAndUnknownKeysAreLeftOut() {
        for (String match : List.of("{'node': 's2'}", "{'role': 'proxy'}", "{'colour': 'red'}")) {
            DecisionTable table = Given.table(view, step("{'match': " + match + ", 'nth': 1}", "crash"));
            assertEquals(0, table.operation("file.write").before.length, match);
        }
        DecisionTable table = Given.table(view, step("{'match': {}, 'unseen': {'keys': ['colour'], 'seen': []}}", "crash"));
        assertEquals(0, table.operation("file.write").before.length);
    }

    @Test
    void observedOperationsAreNeverMatched() {
        DecisionTable table = Given.table(view, step("{'match': {}, 'nth': 1}", "crash"));
        assertEquals(0, table.operation("thread.start").before.length);
        assertEquals(1, table.operation("db.commit").before.length);
    }

    @Test
    void theSecondOccurrenceCountsAfterTheFirstAndNeverBothAtOnce() {
        DecisionTable table = Given.table(view, "{'step': 0, 'first': {'match': {'op': 'file.write'}, 'nth': 2}, "
                + "'second': {'match': {'op': 'file.write'}, 'nth': 1}, 'fault': {'fault': 'crash'}}");
        Given.step(view, 0, SharedState.ARMED);
        assertFalse(isReached(table, "before", "file.write"));
        assertEquals(0, view.get(65));
        assertFalse(isReached(table, "before", "file.write"));
        assertEquals(1, view.get(65));
        assertTrue(isReached(table, "before", "file.write"));
    }

    @Test
    void aFirstOccurrenceSeenElsewhereCounts() {
        DecisionTable table = Given.table(view, "{'step': 0, 'first': {'match': {'node': 's2'}, 'nth': 1}, "
                + "'second': {'match': {'op': 'file.write'}, 'nth': 1}, 'fault': {'fault': 'crash'}}");
        Given.step(view, 0, SharedState.ARMED);
        assertFalse(isReached(table, "before", "file.write"));
        view.put(65, (byte) 1);
        assertTrue(isReached(table, "before", "file.write"));
    }

    @Test
    void aBoundStepCountsOnlyInTheProcessOrOnTheNodeThatTheToolHasWritten() {
        for (String same : List.of("process", "node")) {
            int here = same.equals("process") ? Given.PID : 2;
            for (int place : List.of(0, here + 1, here)) {
                ByteBuffer view = Given.shared();
                DecisionTable table = Given.table(view, "{'step': 1, 'same': '" + same + "', 'first': null, "
                        + "'second': {'match': {'op': 'file.write'}, 'nth': 2}, 'fault': {'fault': 'crash'}}");
                Given.step(view, 1, SharedState.ARMED);
                assertFalse(isReached(table, "before", "file.write")); // before the tool has written the place
                view.putInt(64 + 16 + 4, place);
                assertFalse(isReached(table, "before", "file.write"));
                assertEquals(place == here, isReached(table, "before", "file.write"), same + " " + place);
            }
        }
    }

    @Test
    void aPairMayBeBoundToOneProcessOrToOneNode() {
        for (String together : List.of("process", "node")) {
            ByteBuffer view = Given.shared();
            DecisionTable table = Given.table(view, "{'step': 1, 'first': {'match': {'op': 'file.read'}, 'nth': 1}, "
                    + "'second': {'match': {'op': 'file.write'}, 'nth': 1}, 'together': '" + together
                    + "', 'fault': {'fault': 'crash'}}");
            Given.step(view, 1, SharedState.ARMED);
            view.put(64 + 16 + 1, (byte) 1); // seen somewhere
            view.put(Given.FIRSTS + 2 * 3, (byte) 1); // seen on another node
            assertFalse(isReached(table, "before", "file.write"));
            assertFalse(isReached(table, "before", "file.read"));
            assertEquals(together.equals("node") ? 1 : 0, view.get(Given.FIRSTS + 2 * 3 + 1));
            assertTrue(isReached(table, "before", "file.write"));
        }
    }

    @Test
    void untilCountsWhileTheStepIsFired() {
        DecisionTable table = Given.table(view, "{'step': 1, 'first': null, 'second': {'match': {'node': 's2'}}, 'fault': "
                + "{'fault': 'delay'}, 'until': {'first': {'match': {'op': 'file.read'}, 'nth': 1}, "
                + "'second': {'match': {'op': 'file.fsync'}, 'place': 'after', 'nth': 1}}}");
        Given.step(view, 1, SharedState.ARMED);
        assertFalse(isReached(table, "before", "file.read"));
        Given.step(view, 1, SharedState.FIRED);
        assertFalse(isReached(table, "after", "file.fsync"));
        assertFalse(isReached(table, "before", "file.read"));
        assertEquals(1, view.get(64 + 16 + 2));
        assertEquals(0, view.get(64 + 16 + 1));
        Call call = Given.call(table, "file.fsync", "wal");
        List<TriggerPart> found = table.reached(call.operation.after, call);
        assertEquals("until", found.get(0).half);
    }

    @Test
    void unseenPointsAreThoseNotAmongTheSeen() {
        String digest = Given.stack("app:Main.run#1").digest();
        DecisionTable table = Given.table(view, step("{'match': {'op': 'file.write'}, 'nth': 1, "
                + "'unseen': {'keys': ['loc', 'stack', "
                + "'op', 'node'], 'seen': [['app:Main.run#1', '" + digest + "', 'file.write', 's1']]}}", "crash"));
        Given.step(view, 0, SharedState.ARMED);
        assertFalse(isReached(table, "before", "file.write"));
        assertTrue(Given.isReached(table, "before", Given.call(table, "file.write", "wal", "app:Main.run#2", null)));
    }

    @Test
    void conditionsAreCheckedBeforeSendsAndAfterReceives() {
        DecisionTable table = Given.table(view, step("{'match': {}, 'place': 'after', 'nth': 1, 'when': "
                + "[{'slot': 0, 'is': '==', 'value': 'leader'}, {'slot': 1, 'is': '<', 'other': 2}]}", "crash"));
        assertEquals(1, table.operation("net.send").before.length);
        assertEquals(0, table.operation("net.send").after.length);
        assertEquals(1, table.operation("msg.recv").after.length);
        assertEquals(0, table.operation("file.write").after.length);
        Given.step(view, 0, SharedState.ARMED);
        table.state.publish(0, "leader");
        table.state.publish(1, "9");
        table.state.publish(2, "8");
        assertFalse(isReached(table, "before", "net.send"));
        table.state.publish(2, "10");
        assertTrue(isReached(table, "before", "net.send"));
    }

    @Test
    void faultsMatchOnlyPossibleOperations() {
        DecisionTable error = Given.table(view, step("{'match': {}, 'nth': 1}", "error"));
        assertEquals(0, error.operation("file.map_write").before.length);
        assertEquals(1, error.operation("file.write").before.length);
        DecisionTable crash = Given.table(view, step("{'match': {}, 'nth': 1}", "crash"));
        assertEquals(1, crash.operation("file.map_write").before.length);
        DecisionTable drop = Given.table(view, step("{'match': {}, 'nth': 1}", "drop"));
        assertEquals(1, drop.operation("net.send").before.length);
        assertEquals(0, drop.operation("file.write").before.length);
        DecisionTable unknown = Given.table(view, step("{'match': {}, 'nth': 1}", "flood"));
        assertEquals(0, unknown.operation("net.send").before.length);
    }

    @Test
    void aCorruptionIsCountedWhenItsBytesAreKnown() {
        DecisionTable table = Given.table(view, step("{'match': {}, 'nth': 2}", "corrupt"));
        Given.step(view, 0, SharedState.ARMED);
        assertTrue(isReached(table, "before", "file.write"));
        assertTrue(isReached(table, "before", "file.write"));
        TriggerPart part = (TriggerPart) table.operation("file.write").before[0];
        assertFalse(part.counts());
        assertTrue(part.counts());
    }

    @Test
    void aHoldMatchesWhereItsFaultWould() {
        DecisionTable table = Given.table(view, "{'step': 0, 'first': null, 'second': {'match': {}, 'place': 'after', 'nth': 1}, "
                + "'fault': {'fault': 'hold', 'of': 'drop'}}");
        assertEquals(1, table.operation("net.send").before.length);
        assertEquals(0, table.operation("net.send").after.length);
        assertEquals(0, table.operation("file.write").after.length);
    }

    @Test
    void aDelayOfASendComesBeforeTheSend() {
        DecisionTable table = Given.table(view, "{'step': 0, 'first': null, 'second': {'match': {}, 'place': 'after', 'nth': 1}, "
                + "'fault': {'fault': 'delay', 'mode': 'operation', 'delay_s': 1}}");
        assertEquals(1, table.operation("net.recv").before.length);
        assertEquals(0, table.operation("net.recv").after.length);
        assertEquals(1, table.operation("file.write").after.length);
    }

    @Test
    void variablesAreReadAroundMessagesAndWhereExtentsEnd() {
        DecisionTable table = Given.table(view);
        assertFalse(table.operation("net.send").readsBefore);
        table.readVariables();
        for (String op : List.of("net.connect", "net.send", "raw.send", "msg.recv", "poll", "queue.get", "thread.end")) {
            assertTrue(table.operation(op).readsBefore, op);
        }
        for (String op : List.of("net.recv", "msg.recv", "raw.recv", "handover.take")) {
            assertTrue(table.operation(op).readsAfter, op);
        }
        assertFalse(table.operation("net.send").readsAfter);
        assertFalse(table.operation("file.write").readsBefore);
    }

    @Test
    void aConditionIsCheckedWhereVariablesAreRead() {
        DecisionTable table = Given.table(view, step("{'match': {}, 'nth': 1, 'when': [{'slot': 0, 'is': '==', 'value': null}]}",
                "crash"));
        Given.step(view, 0, SharedState.ARMED);
        table.state.publish(0, "up");
        Call connect = Given.call(table, "net.connect", "peer:s2");
        assertFalse(Given.isReached(table, "before", connect));
        assertEquals(1, table.operation("msg.recv").before.length);
        assertEquals(1, table.operation("msg.recv").after.length);
        assertEquals(0, table.operation("net.send").after.length);
        assertEquals(0, table.operation("raw.send").before.length);
        assertEquals(0, table.operation("file.write").before.length);
        table.state.publish(0, null);
        assertTrue(Given.isReached(table, "before", connect));
    }

    @Test
    void theStateOfVariablesIsPartOfAPoint() {
        DecisionTable table = Given.table(view, step("{'match': {}, 'place': 'before', 'nth': 1, 'unseen': {"
                + "'keys': ['target', 'state'], 'state': [[0], [1, 2]], 'seen': [['peer:s2', 'up, <'], ['peer:s2', '∅, =']]}}",
                "crash"));
        Given.step(view, 0, SharedState.ARMED);
        Call call = Given.call(table, "net.send", "peer:s2");
        assertFalse(Given.isReached(table, "before", call), "all are absent");
        table.state.publish(0, "up");
        table.state.publish(1, "9");
        table.state.publish(2, "10");
        assertFalse(Given.isReached(table, "before", call));
        table.state.publish(2, "8");
        assertTrue(Given.isReached(table, "before", call));
    }

    @Test
    void anUnknownKeyOfAPointNeverMatches() {
        DecisionTable table = Given.table(view, step("{'match': {}, 'place': 'before', 'nth': 1, 'unseen': {"
                + "'keys': ['state'], 'seen': []}}", "crash"));
        assertEquals(0, table.operation("net.send").before.length);
    }

    @Test
    void onlyMessagesBetweenAGroupAndOtherNodesInvolveIt() {
        DecisionTable table = Given.table(view, step("{'match': {}, 'place': 'before', 'nth': 1, 'involves': ['s1', 's3']}",
                "partition"));
        Given.step(view, 0, SharedState.ARMED);
        for (String target : List.of("peer:s3", "peer:s1", "other", "accepted", "peer:x", "vote peer:s3", "")) {
            assertFalse(Given.isReached(table, "before", Given.call(table, "net.send", target)), target);
        }
        for (String op : List.of("net.recv", "file.write", "db.write", "net.close")) {
            assertEquals(0, table.operation(op).before.length + table.operation(op).after.length, op);
        }
        assertTrue(Given.isReached(table, "before", Given.call(table, "msg.send", "vote peer:s2")));
        DecisionTable other = Given.table(view, step("{'match': {}, 'nth': 1, 'involves': ['s2']}", "partition"));
        assertTrue(Given.isReached(other, "before", Given.call(other, "net.connect", "peer:s2")));
    }

    @Test
    void refusesStepsWithoutRoom() {
        ByteBuffer small = ByteBuffer.allocate(80);
        small.put("UMS2".getBytes());
        assertThrows(IllegalArgumentException.class, () -> Given.table(small, "{'step': 1, 'second': {'match': {}}, "
                + "'fault': {'fault': 'crash'}}"));
    }
}
