package undermine.agent.process;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.jar.Attributes;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import undermine.agent.lib.Troubles;

/** Kills real processes, with the native helper and without it. */
class DeathTest {
    private static final int KILLED = 128 + 9;
    private static final int USER_1 = 128 + 10;

    @TempDir
    Path dir;

    /** An agent that dies at once, for another process. */
    public static final class Dying {
        public static void premain(String arguments, java.lang.instrument.Instrumentation instrumentation) {
            String[] given = arguments.split(";", -1);
            NativeHelper.prepare(given[0], instrumentation);
            String trouble = NativeHelper.load();
            boolean isOfBootLoader = NativeHelper.class.getClassLoader() == null;
            System.out.println("loaded " + NativeHelper.isLoaded() + trouble + (isOfBootLoader ? "" : " elsewhere"));
            System.out.flush();
            new Death(Integer.parseInt(given[1]), 0, given[2], null).prepare().strike();
        }
    }

    @Test
    void theHelperTellsTheKeeperAndKills() throws Exception {
        String helper = helper();
        Process keeper = new ProcessBuilder("sleep", "60").start();
        try {
            assertEquals(List.of("loaded true"), die(helper, (int) keeper.pid(), dir.toString()));
            assertEquals(USER_1, keeper.waitFor());
            assertEquals("1", Files.readString(dir.resolve("cgroup.kill")));
        } finally {
            keeper.destroyForcibly();
        }
    }

    @Test
    void withoutTheHelperTheProcessAndItsCgroupAreKilled() throws Exception {
        assertEquals(List.of("loaded false"), die("", 0, dir.toString()));
        assertEquals("1", Files.readString(dir.resolve("cgroup.kill")));
    }

    @Test
    void aHelperThatCannotBeLoadedIsReportedAndNotUsed() throws Exception {
        Path empty = Files.writeString(dir.resolve("empty.c"), "int nothing;");
        List<String> said = die(compiled(empty), 0, "");
        assertTrue(said.get(0).startsWith("loaded falsethe native helper cannot be loaded: "), said.toString());
    }

    /** The output of the process until it was killed. */
    private List<String> die(String helper, int keeper, String cgroup) throws Exception {
        Files.writeString(dir.resolve("cgroup.kill"), "");
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        ProcessBuilder builder = new ProcessBuilder(java, "-Xshare:auto",
                "-javaagent:" + jar() + "=" + helper + ";" + keeper + ";" + cgroup, "-version");
        builder.environment().remove("JAVA_TOOL_OPTIONS");
        File output = dir.resolve("output").toFile();
        Process process = builder.redirectErrorStream(true).redirectOutput(output).start();
        assertEquals(KILLED, process.waitFor());
        return Files.readAllLines(output.toPath());
    }

    private String helper() throws Exception {
        return compiled(Path.of("native", "undermine_jvm.c").toAbsolutePath());
    }

    private String compiled(Path source) throws Exception {
        try {
            Process compiler = new ProcessBuilder("cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC",
                    "-o", dir.resolve("undermine_jvm.so").toString(), source.toString()).inheritIO().start();
            assertEquals(0, compiler.waitFor());
        } catch (IOException absent) {
            assumeTrue(false, "there is no C compiler (cc)");
        }
        return dir.toString();
    }

    /** A jar of agent classes with a premain of the test, on the boot class path like the real one. */
    private Path jar() throws IOException {
        Manifest manifest = new Manifest();
        Attributes attributes = manifest.getMainAttributes();
        attributes.put(Attributes.Name.MANIFEST_VERSION, "1.0");
        attributes.putValue("Premain-Class", "undermine.agent.process.DeathTest$Dying");
        attributes.putValue("Boot-Class-Path", "dying.jar");
        attributes.putValue("Can-Retransform-Classes", "true");
        Path jar = dir.resolve("dying.jar");
        try (OutputStream file = Files.newOutputStream(jar); JarOutputStream out = new JarOutputStream(file, manifest)) {
            List<Class<?>> needed = List.of(
                    NativeHelper.class, Death.class, Death.Prepared.class, ProcessIds.class, Dying.class, Troubles.class);
            for (Class<?> each : needed) {
                String name = each.getName().replace('.', '/') + ".class";
                out.putNextEntry(new JarEntry(name));
                out.write(each.getClassLoader().getResourceAsStream(name).readAllBytes());
            }
        }
        return jar;
    }
}
