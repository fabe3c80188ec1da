package undermine.agent.lib;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
    @Test
    void valuesAreRead() {
        Object value = Json.read(" {\"a\": [1, -2.5, 1e3, true, false, null, \"x\\u00e9\\n\\\"\"], \"b\": {}, \"c\": []} ");
        List<Object> list = Arrays.asList(1L, -2.5, 1000.0, true, false, null, "xé\n\"");
        assertEquals(Map.of("a", list, "b", Map.of(), "c", List.of()), value);
        assertEquals(List.of("b", "a"), new ArrayList<>(((Map<?, ?>) Json.read("{\"b\":1,\"a\":2}")).keySet()));
    }

    @Test
    void integersThatDoNotFitALongAreDoubles() {
        assertEquals(Long.MAX_VALUE, Json.read("9223372036854775807"));
        assertEquals(Long.MIN_VALUE, Json.read("-9223372036854775808"));
        assertEquals(9.223372036854775808e18, Json.read("9223372036854775808"));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", "{", "[1,]", "[1 2]", "{\"a\"}", "{\"a\":}", "{1:2}", "\"", "\"\\x\"", "\"\\u12\"", "-", "tru", "1 2", "[1,,2]",
    })
    void malformedTextsAreRefused(String text) {
        assertThrows(IllegalArgumentException.class, () -> Json.read(text));
    }

    @Test
    void endlessNestingIsRefused() {
        assertThrows(IllegalArgumentException.class, () -> Json.read("[".repeat(100_000)));
    }

    @Test
    void writtenTextsAreReadBack() {
        String text = "{\"a\":[1,-2.5,true,null,\"x\\u00e9\\n\\\"\\\\\\u0001\\ud83d\\ude00\"],\"b\":{},\"c\":[]}";
        assertEquals(text, Json.write(Json.read(text)));
        assertEquals("null", Json.write(Double.NaN));
        assertEquals("7", Json.write(7));
    }
}
