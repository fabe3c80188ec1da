package undermine.agent.operations;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class StoreCallTest {
    private static List<String> shown(Object... values) {
        return StoreCall.shown(Arrays.asList(values));
    }

    @Test
    void valuesAreTextsAlsoInCollectionsMapsAndArrays() {
        Object map = Collections.singletonMap("field", Arrays.asList(1, 2.5));
        List<String> found = shown("a", null, map, new String[] {"b", "c"}, new int[] {3}, TimeUnit.DAYS, true);
        assertEquals(List.of("a", "field", "1", "2.5", "b", "c", "3", "DAYS", "true"), found);
    }

    @Test
    void anObjectWithoutATextOfItsOwnIsItsClass() {
        assertEquals(List.of("Object", "built"), shown(new Object(), new StringBuilder("built")));
    }

    @Test
    void bytesThatAreNotTextAreEscaped() {
        byte[] data = {'a', (byte) 0xff, (byte) 0xc3, (byte) 0xa4, (byte) 0xe2, (byte) 0x82};
        assertEquals(List.of("a\\xff\u00e4\\xe2\\x82"), shown((Object) data));
    }

    @Test
    void aBufferIsReadWithoutMovingIt() {
        ByteBuffer buffer = ByteBuffer.wrap("xkey".getBytes(StandardCharsets.UTF_8));
        buffer.get();
        assertEquals(List.of("key"), shown(buffer));
        assertEquals(3, buffer.remaining());
    }

    @Test
    void longTextsAreDigests() {
        assertEquals(List.of("x".repeat(64), "#9d1841f9c531"), shown("x".repeat(64), "x".repeat(65)));
    }

    @Test
    void answersArePairedWithAsManyKeys() {
        StoreCall two = new StoreCall("kv", "get", List.of("a", "b"), List.of());
        assertEquals("{\"store\":\"kv\",\"got\":[[\"a\",[\"1\"]],[\"b\",[\"2\"]]]}", two.textOf(List.of("1", "2")));
        assertEquals("{\"store\":\"kv\",\"got\":[[\"a\",[\"1\"]],[\"b\",[\"1\"]]]}", two.textOf(List.of("1")));
    }

    @Test
    void theTextSaysThatSomethingWasLeftOut() {
        List<String> values = StoreCall.shown(Collections.nCopies(1000, "x"));
        assertEquals(StoreCall.VALUES_MAX + 1, values.size());
        String text = new StoreCall("kv", "put", List.of("k"), values).text();
        assertTrue(text.endsWith(",\"more\":true}"), text);
        assertFalse(new StoreCall("kv", "put", List.of("k"), values.subList(0, 40)).text().contains("more"));
        String wide = "\u00e4".repeat(32); // 192 characters in JSON
        text = new StoreCall("kv", "put", List.of("k"), Collections.nCopies(30, wide)).text();
        assertEquals("{\"store\":\"kv\",\"do\":[],\"more\":true}", text);
    }
}
