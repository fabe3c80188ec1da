package undermine.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import shop.Store;
import undermine.agent.lib.Json;
import undermine.agent.names.ThreadNames;
import undermine.agent.process.ProcessIds;
import undermine.agent.stacks.Sites;
import undermine.agent.wire.Config;
import undermine.agent.wire.EventFile;

/** The stacks of a process that hangs, as the tool asks for them. */
class StackDumpTest {
    @TempDir
    Path folder;

    @Test
    void aThreadThatHangsIsDescribed() throws Exception {
        CountDownLatch reached = new CountDownLatch(1);
        CountDownLatch goOn = new CountDownLatch(1);
        Store.probe = () -> {
            reached.countDown();
            try {
                goOn.await();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        };
        Thread thread = new Thread(() -> new Store().deep(0), "writer");
        thread.start();
        reached.await();
        ThreadNames names = new ThreadNames();
        names.take(new Thread(null, null, "writer"));
        names.take(thread);
        StackDump.write(config(), names, new Sites(List.of("shop"), new EventFile(folder.resolve("e").toString())));
        goOn.countDown();
        thread.join();
        check(folder.resolve("s1.2.77.stacks"));
    }

    private void check(Path path) throws IOException {
        Map<?, ?> found = (Map<?, ?>) Json.read(Files.readString(path));
        assertEquals("s1", found.get("node"));
        assertEquals(2L, found.get("incarnation"));
        assertEquals(77L, found.get("pid"));
        assertEquals(0L, found.get("left_out"));
        Map<?, ?> writer = ((List<?>) found.get("doing")).stream()
            .map(one -> (Map<?, ?>) one).filter(one -> "writer#2".equals(one.get("name"))).findAny().orElseThrow();
        assertEquals(List.of("shop:Store.deep"), writer.get("own"));
        List<?> stack = (List<?>) writer.get("stack");
        assertTrue(stack.stream().anyMatch(place -> ((String) place).matches("shop:Store\\.deep:\\d+")));
        assertFalse(stack.stream().anyMatch(place -> ((String) place).startsWith("undermine.agent")));
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(path)));
        try (Stream<Path> all = Files.list(folder)) {
            assertEquals(2, all.count());
        }
    }

    private Config config() {
        Map<String, Object> json = new LinkedHashMap<>();
        json.put("version", 2L);
        json.put("node", "s1");
        json.put("incarnation", 2L);
        json.put("trace_dir", folder.toString());
        return new Config(json, new ProcessIds("77 (java) S 1 1"));
    }
}
