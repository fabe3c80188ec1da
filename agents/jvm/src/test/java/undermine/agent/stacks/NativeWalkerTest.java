package undermine.agent.stacks;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.io.TempDir;
import undermine.agent.process.NativeHelper;

/** The tests of SitesTest with the native helper. */
class NativeWalkerTest extends SitesTest {
    @TempDir
    static Path built;

    @BeforeAll
    static void build() throws InterruptedException {
        Path helper = built.resolve("undermine_jvm.so");
        assumeTrue(compile(helper), "needs a C compiler");
        System.load(helper.toString());
    }

    private static boolean compile(Path helper) throws InterruptedException {
        try {
            return new ProcessBuilder("cc", "-O2", "-shared", "-fPIC", "-o", helper.toString(), "native/undermine_jvm.c")
                .inheritIO().start().waitFor() == 0;
        } catch (IOException noCompiler) {
            return false;
        }
    }

    @Override
    Walker walker() throws ReflectiveOperationException {
        Field loaded = NativeHelper.class.getDeclaredField("loaded");
        loaded.setAccessible(true);
        boolean before = loaded.getBoolean(null);
        loaded.set(null, true);
        Walker made = NativeWalker.make(Walker.jdk());
        loaded.set(null, before);
        assertTrue(made instanceof NativeWalker);
        return made;
    }
}
