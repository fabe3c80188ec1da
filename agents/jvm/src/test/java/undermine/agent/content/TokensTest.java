package undermine.agent.content;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import undermine.agent.lib.Json;
import undermine.agent.lib.JsonValues;
import undermine.agent.lib.Payload;

/** The agent finds the tokens in bytes that the protocol's table of examples has. */
class TokensTest {
    private static final Path EXAMPLES = Path.of("..", "..", "tests", "conformance", "tokens.json");

    private static List<?> examples() throws IOException {
        List<?> all = JsonValues.list(Json.read(Files.readString(EXAMPLES)));
        assertFalse(all.isEmpty());
        return all;
    }

    /** The bytes of an example: parts in hexadecimal, each with the number of its repetitions. */
    private static byte[] bytes(Map<String, Object> example) {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        for (Object each : JsonValues.list(example.get("bytes"))) {
            List<?> part = JsonValues.list(each);
            String digits = (String) part.get(0);
            for (int times = JsonValues.number(part.get(1)); times > 0; times--) {
                for (int i = 0; i < digits.length(); i += 2) {
                    all.write(Integer.parseInt(digits.substring(i, i + 2), 16));
                }
            }
        }
        return all.toByteArray();
    }

    private static String digests(Object moved, long count) {
        return ContentRecorder.digests(Payload.of(new Object[] {moved}), count);
    }

    @Test
    void theExamplesHaveTheirDigests() throws IOException {
        for (Object each : examples()) {
            Map<String, Object> example = JsonValues.map(each);
            byte[] bytes = bytes(example);
            assertEquals(example.get("digests"), digests(bytes, bytes.length), (String) example.get("name"));
        }
    }

    @Test
    void buffersThatAreMovedTogetherAreOne() throws IOException {
        for (Object each : examples()) {
            Map<String, Object> example = JsonValues.map(each);
            byte[] bytes = bytes(example);
            List<ByteBuffer> parts = new ArrayList<>();
            for (int at = 0; at < bytes.length; at += 1000) {
                ByteBuffer part = ByteBuffer.allocateDirect(1007).position(3);
                part.put(bytes, at, Math.min(1000, bytes.length - at)).flip().position(3);
                parts.add(part);
            }
            Payload payload = Payload.of(new Object[] {parts.toArray(new ByteBuffer[0])});
            for (ByteBuffer part : parts) {
                part.position(part.limit()); // as a method that has written it
            }
            assertEquals(example.get("digests"), ContentRecorder.digests(payload, bytes.length), (String) example.get("name"));
        }
    }

    @Test
    void onlyTheBytesThatMovedCount() {
        byte[] room = "arrived-here left-before".getBytes();
        assertEquals(digests("arrived-here".getBytes(), 12), digests(room, 12));
        assertEquals("", digests(room, 5));
    }

    @Test
    void anyBytesHaveAtMost64DifferentDigests() {
        Random random = new Random(22);
        for (int round = 0; round < 300; round++) {
            byte[] bytes = new byte[random.nextInt(10_000)];
            for (int i = 0; i < bytes.length; i++) {
                bytes[i] = (byte) (random.nextInt(3) == 0 ? 0 : random.nextInt(256));
            }
            List<String> found = List.of(digests(bytes, bytes.length).split(" "));
            assertEquals(List.copyOf(new TreeSet<>(found)), found);
            assertTrue(found.size() <= Tokens.DIGESTS_MAX, () -> "" + found.size());
        }
    }
}
