package undermine.agent.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** A method is woven only if all fields exist that its hooks need. */
class WeaverTest {
    private final List<String> left = new ArrayList<>();

    private boolean isWoven(String method, String entry) throws IOException {
        try (InputStream file = Object.class.getResourceAsStream("/java/io/File.class")) {
            byte[] woven = Weaver.woven("java/io/File", file.readAllBytes(), Map.of(method, new WovenMethod(entry, null)), left);
            return new String(woven, StandardCharsets.ISO_8859_1).contains("undermine/agent/files/FileHooks");
        }
    }

    @Test
    void aFieldOfTheClassItself() throws IOException {
        assertTrue(isWoven("delete()Z", "files/FileHooks.delete(this.path Ljava/lang/String;)"));
        assertEquals(List.of(), left);
    }

    @Test
    void aFieldOfAnotherClass() throws IOException {
        String entry = "files/FileHooks.rename(this,0.%s java/io/FileInputStream)";
        assertTrue(isWoven("renameTo(Ljava/io/File;)Z", String.format(entry, "path Ljava/lang/String;")));
        assertFalse(isWoven("renameTo(Ljava/io/File;)Z", String.format(entry, "way Ljava/lang/String;")));
        assertEquals(List.of("renameTo (no way)"), left);
    }

    @Test
    void aMissingField() throws IOException {
        assertFalse(isWoven("delete()Z", "files/FileHooks.delete(this.way Ljava/lang/String;)"));
        assertFalse(isWoven("delete()Z", "files/FileHooks.delete(this.path [B)"));
        assertEquals(List.of("delete (no way)", "delete (no path)"), left);
    }
}
