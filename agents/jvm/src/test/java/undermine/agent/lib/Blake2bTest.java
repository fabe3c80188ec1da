package undermine.agent.lib;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

/** Digests that Python's hashlib.blake2b computed. */
class Blake2bTest {
    @Test
    void knownDigests() {
        assertEquals(
            "ddd9c40767f9",
            hex("", 6));
        assertEquals(
            "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1"
                + "7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
            hex("abc", 64));
        assertEquals(
            "709af9cd57ae",
            hex("a".repeat(127), 6));
        assertEquals(
            "5e7c18fe921b",
            hex("a".repeat(128), 6));
        assertEquals(
            "d7a9fb931381834c12884bca2b81e183dc6a2e3f8633c9f0c9622cee4c7c725b688f30a62189129f2329bf9d11172360",
            hex("a".repeat(129), 48));
        assertEquals(
            "1451966da0e4",
            hex("granary.store:Store.put#3\ngranary.node:main#0", 6));
        assertEquals(
            "fa19d895d125108ad769138398505ed91478b1fc539bd57761ab3a30862979fe",
            hex("é".repeat(300), 32));
    }

    private static String hex(String text, int size) {
        return Blake2b.hex(text.getBytes(StandardCharsets.UTF_8), size);
    }
}
