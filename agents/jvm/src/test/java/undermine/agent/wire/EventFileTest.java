package undermine.agent.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The event file: compared with the golden one, and written by many or interrupted threads. */
class EventFileTest {
    private static final Path GOLDEN = Path.of("../../protocol/golden/s1.1.4242.events");
    private static final String PROCESS =
        "{\"version\":2,\"node\":\"s1\",\"role\":\"store\",\"incarnation\":1,\"pid\":4242,\"ppid\":4241,"
            + "\"agent\":\"golden/1\",\"runtime\":\"none\",\"capabilities\":[\"crash\",\"error\"],\"gaps\":[\"mmap\"]}";

    @TempDir
    Path folder;

    private Path path;
    private EventFile file;

    @BeforeEach
    void open() throws IOException {
        path = folder.resolve("s1.1.4242.events");
        file = new EventFile(path.toString());
    }

    @Test
    void itIsTheGoldenFileByteForByte() throws IOException {
        Cursor main = new Cursor(file);
        Cursor other = new Cursor(file);
        file.process(main, PROCESS);
        int inner = file.frame(main, "granary.store:Store.put#3", 41);
        int outer = file.frame(main, "granary.node:main#0", 7);
        int stack = file.stack(main, new int[] {inner, outer});
        int small = file.stack(main, new int[] {outer});
        int op = file.string(main, "file.write");
        int target = file.string(main, "log-<n>.txt");
        int resource = file.string(main, "/d/s1/log-17.txt");
        int thread = file.string(main, "MainThread");
        file.begin(main, 1, 1_000_000_001L, op, stack, target, resource, thread, 512);
        file.end(main, 1, 1_000_000_900L, 512, 0);
        int send = file.string(other, "net.send");
        int peer = file.string(other, "peer:s2");
        int named = file.string(other, "sender é");
        file.begin(other, 2, 1_000_000_500L, send, small, peer, 0, named, 10);
        file.end(other, 2, 1_000_000_700L, 0, file.string(other, "ECONNRESET"));
        int action = file.string(other, "error");
        int detail = file.string(other, "before net.send peer:s2: ECONNRESET once");
        file.receipt(other, 2, 1_000_000_600L, 0, 0, action, detail);
        int mapped = file.string(main, "file.map_write");
        file.begin(main, 3, 1_000_002_000L, mapped, stack, target, resource, thread, -1);
        file.receipt(main, 3, 1_000_002_500L, 1, 12_345, file.string(main, "crash"), 0);
        byte[] golden = Files.readAllBytes(GOLDEN);
        byte[] written = Files.readAllBytes(path);
        assertArrayEquals(golden, Arrays.copyOf(written, golden.length));
        byte[] empty = Arrays.copyOf(Arrays.copyOf(golden, 4), EventFile.CHUNK);
        for (int chunk = golden.length; chunk < written.length; chunk += EventFile.CHUNK) { // chunks that were added in advance
            assertArrayEquals(empty, Arrays.copyOfRange(written, chunk, chunk + EventFile.CHUNK));
        }
    }

    @Test
    void anExistingFileIsNeverTouched() {
        assertThrows(IOException.class, () -> new EventFile(path.toString()));
    }

    @Test
    void recordsNeverCrossAChunk() throws IOException {
        Cursor cursor = new Cursor(file);
        for (int seq = 1; seq <= 5000; seq++) {
            file.begin(cursor, seq, seq, file.string(cursor, "text " + seq % 100), 1, 0, 0, 0, 0);
            file.end(cursor, seq, seq, 0, 0);
        }
        Map<Integer, Integer> kinds = kinds();
        assertEquals(5000, kinds.get(5));
        assertEquals(5000, kinds.get(6));
        assertEquals(100, kinds.get(2));
    }

    @Test
    void longTextsAreCutAndLoneSurrogatesEscaped() throws IOException {
        Cursor cursor = new Cursor(file);
        assertEquals(0, file.string(cursor, ""));
        assertEquals(1, file.string(cursor, "x".repeat(10_000)));
        assertEquals(2, file.string(cursor, "a\ud800b"));
        assertEquals(2, file.string(cursor, "a\ud800b"));
        ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(path)).order(ByteOrder.LITTLE_ENDIAN);
        assertEquals(9 + 4000, data.getInt(4));
        byte[] text = new byte[8];
        data.position(4 + 4009 + 9).get(text);
        assertArrayEquals("a\\ud800b".getBytes(), text);
    }

    @Test
    void aThreadThatRecordsNothingTakesNoChunk() throws IOException {
        new Cursor(file);
        assertEquals(0, Files.size(path));
    }

    @Test
    void theChunkOfAThreadThatEndedIsUsedAgain() throws Exception {
        Chunk[] chunks = new Chunk[2];
        for (int i = 0; i < 2; i++) {
            Chunk[] into = chunks;
            int number = i;
            Thread thread = new Thread(() -> into[number] = new Cursor(file).chunk);
            thread.start();
            thread.join();
        }
        assertSame(chunks[0], chunks[1]);
    }

    @Test
    void aChunkThatIsGivenBackIsReusedOnce() {
        Cursor first = new Cursor(file);
        first.done();
        first.done();
        Cursor second = new Cursor(file);
        assertSame(first.chunk, second.chunk);
        assertNotSame(second.chunk, new Cursor(file).chunk);
    }

    @Test
    void veryManyThreadsShareChunks() {
        List<Chunk> chunks = new ArrayList<>();
        for (int i = 0; i < 2000; i++) {
            chunks.add(new Cursor(file).chunk);
        }
        assertTrue(chunks.stream().distinct().count() < 600);
    }

    @Test
    void anInterruptedThreadRecordsAndStaysInterrupted() throws Exception {
        boolean[] stays = new boolean[1];
        Thread thread = new Thread(() -> {
            Thread.currentThread().interrupt();
            Cursor cursor = new Cursor(file);
            file.begin(cursor, 1, 1, 0, 0, 0, 0, 0, 0);
            stays[0] = Thread.currentThread().isInterrupted();
        });
        thread.start();
        thread.join();
        assertTrue(stays[0]);
        assertEquals(1, kinds().get(5));
    }

    @Test
    void aFileThatCannotGrowStopsRecordingSilently() throws IOException {
        Files.delete(path);
        Files.createDirectory(path);
        Cursor cursor = new Cursor(file);
        for (int seq = 1; seq <= 5000; seq++) {
            file.begin(cursor, seq, seq, 0, 0, 0, 0, 0, 0);
        }
        assertTrue(Files.isDirectory(path));
    }

    @Test
    void threadsWriteAtOnce() throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            threads.add(new Thread(() -> {
                Cursor cursor = new Cursor(file);
                for (int j = 0; j < 2000; j++) {
                    file.begin(cursor, file.nextSeq(), j, file.string(cursor, "op " + j % 7), 0, 0, 0, 0, 0);
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(16_000, kinds().get(5));
    }

    /** The number of complete records of each type in the file. */
    private Map<Integer, Integer> kinds() throws IOException {
        ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(path)).order(ByteOrder.LITTLE_ENDIAN);
        Map<Integer, Integer> found = new TreeMap<>();
        for (int chunk = 0; chunk < data.capacity(); chunk += EventFile.CHUNK) {
            assertEquals(0x31434d55, data.getInt(chunk));
            int at = chunk + 4;
            int end = chunk + EventFile.CHUNK;
            while (at + 5 <= end && data.getInt(at) != 0) {
                found.merge((int) data.get(at + 4), 1, Integer::sum);
                at += data.getInt(at);
                assertTrue(at <= end);
            }
        }
        return found;
    }
}
