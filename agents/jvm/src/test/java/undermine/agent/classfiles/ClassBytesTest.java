package undermine.agent.classfiles;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.io.IOException;
import java.io.InputStream;
import org.junit.jupiter.api.Test;
import shop.Store;

/** Where the class files of the target come from. */
class ClassBytesTest {
    private static final byte[] WOVEN = "calls undermine/agent/Hooks".getBytes();

    @Test
    void wovenClassFilesComeBeforeThoseOfTheLoader() throws IOException {
        ClassLoader loader = Store.class.getClassLoader();
        ClassBytes.loaded(loader, "shop/Store", WOVEN);
        assertSame(WOVEN, ClassBytes.of(Store.class));
        assertSame(WOVEN, ClassBytes.of(loader, "shop.Store"));
        ClassBytes.forget(Store.class);
        try (InputStream stream = Store.class.getResourceAsStream("Store.class")) {
            assertArrayEquals(stream.readAllBytes(), ClassBytes.of(Store.class));
        }
    }

    @Test
    void theCacheIsLimited() {
        ClassLoader loader = new ClassLoader() { };
        for (int i = 0; i < 20; i++) {
            ClassBytes.loaded(loader, "a/B" + i, new byte[1 << 20]);
        }
        assertEquals(1 << 20, ClassBytes.of(loader, "a.B0").length);
        assertNull(ClassBytes.of(loader, "a.B19"));
    }

    @Test
    void classesOfTheJvmAreNotRead() {
        assertNull(ClassBytes.of(String.class));
    }
}
