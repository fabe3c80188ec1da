package undermine.agent.names;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Masking of names: the rules of protocol/README.md, written once more as regular expressions. */
class MasksTest {
    private static final String HEX = "[0-9a-fA-F]";
    private static final String[][] RULES = {
        {"(?<![0-9A-Za-z])tmp[a-z0-9_]{6,}", "tmp<x>"},
        {"(?<![0-9A-Za-z])" + HEX + "{8}(-" + HEX + "{4}){3}-" + HEX + "{12}(?![0-9A-Za-z])", "<hex>"},
        {"(?<![0-9A-Za-z])(?=[a-fA-F]*[0-9])" + HEX + "{8,}(?![0-9A-Za-z])", "<hex>"},
        {"[0-9]+", "<n>"},
    };
    private static final String[] PIECES = {
        "tmp", "-", "_", "/", ".", "a1b2c3d4", "550e8400-e29b-41d4-a716-446655440000", "é", "Z", "x", "0", "42",
        "abcdef", "12345678", "deadbeef", "g", "T", " ",
    };

    private static String expected(String text) {
        for (String[] rule : RULES) {
            text = text.replaceAll(rule[0], rule[1]);
        }
        return text;
    }

    @ParameterizedTest
    @CsvSource({
        "log-17.txt, log-<n>.txt",
        "v2/key9, v<n>/key<n>",
        "550e8400-e29b-41d4-a716-446655440000.x, <hex>.x",
        "tmpab12cd_x/a, tmp<x>/a",
        "tmp/abc, tmp/abc",
        "snap-00000012.bin, snap-<hex>.bin",
        "deadbeef01, <hex>",
        "deadbeef, deadbeef",
        "msgdeadbeef01, msgdeadbeef<n>",
        "Thread-3 (worker), Thread-<n> (worker)",
        "'', ''",
    })
    void examples(String name, String template) {
        assertEquals(template, Masks.mask(name));
        assertEquals(template, expected(name));
    }

    @Test
    void namesAreMaskedByTheRules() {
        Random chance = new Random(3);
        for (int i = 0; i < 20_000; i++) {
            StringBuilder text = new StringBuilder();
            for (int left = 1 + chance.nextInt(7); left > 0; left--) {
                text.append(PIECES[chance.nextInt(PIECES.length)]);
            }
            assertEquals(expected(text.toString()), Masks.mask(text.toString()));
        }
    }

    @Test
    void aContentIsShortAndKeepsNumbers() {
        assertEquals("user:17 <hex>", Masks.content("user:17 3fa94bc1d2", 64, "\u001f"));
        assertEquals("a b", Masks.content("a\u001fbc", 3, "\u001f"));
    }
}
