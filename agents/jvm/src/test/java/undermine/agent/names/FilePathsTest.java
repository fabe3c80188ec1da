package undermine.agent.names;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import undermine.agent.operations.Subject;

/** Which paths are recorded, and their names. */
class FilePathsTest {
    private final FilePaths paths = new FilePaths("/d/s1", List.of("/d/s1", "/logs/", "/d/s1/inner"));

    @Test
    void pathsAreRelativeToTheInnermostFolder() {
        assertEquals("log-<n>.txt", paths.subject("/d/s1/log-17.txt").target);
        assertEquals("/d/s1/log-17.txt", paths.subject("/d/s1/log-17.txt").resource);
        assertEquals("x", paths.subject("/d/s1/inner/x").target);
        assertEquals("version-<n>/log.<n>", paths.subject("/d/s1//version-2/./a/../log.1").target);
        assertEquals(".", paths.subject("/d/s1").target);
        assertEquals(".", paths.subject("/d/s1/").target);
    }

    @Test
    void onlyTheNodesOwnFolderIsItsDisk() {
        assertTrue(paths.subject("/d/s1/a").onDisk);
        assertFalse(paths.subject("/logs/a").onDisk);
    }

    @Test
    void filesElsewhereAreNotRecorded() {
        assertNull(paths.subject("/d/s10/a"));
        assertNull(paths.subject("/d/s1/../s2/a"));
        assertNull(paths.subject("relative"));
        assertNull(paths.subject(""));
        assertNull(paths.subject(null));
    }

    @Test
    void relativePathsCountFromTheWorkingFolder() {
        FilePaths here = new FilePaths(System.getProperty("user.dir"), List.of());
        assertEquals("a/b", here.subject("a/b").target);
    }

    @Test
    void subjectsAreReused() {
        assertSame(paths.subject("/d/s1/a"), paths.subject("/d/s1/a"));
    }

    @Test
    void linksLeadToTheSameFolder(@TempDir Path folder) throws IOException {
        Path real = Files.createDirectory(folder.resolve("real"));
        Path link = Files.createSymbolicLink(folder.resolve("link"), real);
        FilePaths linked = new FilePaths(link.toString(), List.of());
        assertEquals("f", linked.subject(link + "/f").target);
        assertEquals("f", linked.subject(real.toRealPath() + "/f").target);
    }

    @Test
    void aRenameIsRecordedIfEitherPathIs() {
        Subject inside = paths.subject("/d/s1/a1");
        assertEquals("a<n> -> <outside>", FilePaths.pair(inside, null).target);
        assertEquals("<outside> -> /d/s1/a1", FilePaths.pair(null, inside).resource);
        assertTrue(FilePaths.pair(null, inside).onDisk);
        assertFalse(FilePaths.pair(null, paths.subject("/logs/x")).onDisk);
        assertNull(FilePaths.pair(null, null));
    }
}
