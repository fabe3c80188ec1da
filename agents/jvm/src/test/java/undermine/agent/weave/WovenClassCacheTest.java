package undermine.agent.weave;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class WovenClassCacheTest {
    private static final byte[] ORIGINAL = {1, 2, 3};
    private static final byte[] OTHER = {1, 2, 4};
    private static final byte[] WOVEN = {9, 8};

    @TempDir
    Path folder;

    private WovenClassCache kept() {
        return new WovenClassCache(folder.toString());
    }

    @Test
    void wovenClassesAreKeptForTheNextProcess() {
        WovenClassCache first = kept();
        first.put(WovenClassCache.key("a/B", ORIGINAL), WOVEN);
        first.put(WovenClassCache.key("a/C", ORIGINAL), null);
        first.save();
        WovenClassCache next = kept();
        assertArrayEquals(WOVEN, next.get(WovenClassCache.key("a/B", ORIGINAL)));
        assertEquals(0, next.get(WovenClassCache.key("a/C", ORIGINAL)).length);
        assertNull(next.get(WovenClassCache.key("a/B", OTHER)));
        assertNull(next.get(WovenClassCache.key("a/D", ORIGINAL)));
    }

    @Test
    void entriesOfOtherProcessesAreKept() {
        WovenClassCache first = kept();
        WovenClassCache second = kept();
        first.put(WovenClassCache.key("a/B", ORIGINAL), WOVEN);
        first.save();
        second.put(WovenClassCache.key("a/C", ORIGINAL), WOVEN);
        second.save();
        assertArrayEquals(WOVEN, kept().get(WovenClassCache.key("a/B", ORIGINAL)));
        assertArrayEquals(WOVEN, kept().get(WovenClassCache.key("a/C", ORIGINAL)));
    }

    @Test
    void nothingIsWrittenWithoutChanges() {
        kept().save();
        assertEquals(0, folder.toFile().list().length);
    }

    @Test
    void aMissingFolderDoesNoHarm() {
        for (String name : new String[] {"", folder.resolve("missing").toString()}) {
            WovenClassCache classes = new WovenClassCache(name);
            classes.put(WovenClassCache.key("a/B", ORIGINAL), WOVEN);
            classes.save();
        }
    }

    @Test
    void aDamagedFileIsIgnored() throws IOException {
        WovenClassCache first = kept();
        first.put(WovenClassCache.key("a/B", ORIGINAL), WOVEN);
        first.save();
        File file = folder.toFile().listFiles()[0];
        byte[] whole = Files.readAllBytes(file.toPath());
        for (int length = 0; length < whole.length; length++) {
            Files.write(file.toPath(), java.util.Arrays.copyOf(whole, length));
            assertNull(kept().get(WovenClassCache.key("a/B", ORIGINAL)), "cut to " + length);
        }
        for (int at = 0; at < whole.length; at++) {
            byte[] damaged = whole.clone();
            damaged[at] ^= 1;
            Files.write(file.toPath(), damaged);
            assertNull(kept().get(WovenClassCache.key("a/B", ORIGINAL)), "damaged at " + at);
        }
    }
}
