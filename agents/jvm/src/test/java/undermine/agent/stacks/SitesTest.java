package undermine.agent.stacks;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.InputStream;
import java.lang.ref.WeakReference;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import shop.Store;
import undermine.agent.lib.Blake2b;
import undermine.agent.process.NativeHelper;
import undermine.agent.wire.Cursor;
import undermine.agent.wire.EventFile;

/** Call sites and stacks of a target in the package `shop`. */
class SitesTest {
    @TempDir
    Path folder;

    private EventFile file;
    private Sites sites;
    private Cursor cursor;
    private final List<Stack> met = new ArrayList<>();

    /** The walker under test. */
    Walker walker() throws ReflectiveOperationException {
        return Walker.jdk();
    }

    @BeforeEach
    void open() throws Exception {
        file = new EventFile(folder.resolve("s1.1.1.events").toString());
        sites = new Sites(List.of("shop"), file, walker());
        cursor = new Cursor(file);
        Store.probe = () -> met.add(sites.here(cursor));
    }

    @Test
    void aStackHasTheTargetsFramesInnermostFirst() {
        new Store().put("key");
        assertArrayEquals(
            new String[] {
                "shop:Store.Inner.run.<lambda>#0",
                "shop:Store.Inner.<1>.run#0",
                "shop:Store.Inner.run.<lambda2>#2",
                "shop:Store.Inner.run#2",
                "shop:Store.write(String)#3",
                "shop:Store.put#1",
            },
            met.get(0).locs());
        assertArrayEquals(new String[] {"shop:Store.write(int)#0", "shop:Store.put#2"}, met.get(1).locs());
        assertEquals(met.get(0).locs()[0], met.get(0).loc);
    }

    @Test
    void theSameStackIsTheSameObject() {
        for (int i = 0; i < 3; i++) {
            new Store().put("key");
        }
        assertSame(met.get(0), met.get(2));
        assertSame(met.get(1), met.get(5));
        assertNotEquals(met.get(0).id, met.get(1).id);
    }

    @Test
    void callsOnOneLineAreTwoCallSites() {
        new Store().twice();
        assertEquals("shop:Store.twice#0", met.get(0).loc);
        assertEquals("shop:Store.twice#1", met.get(1).loc);
    }

    @Test
    void codeMayRunByInstructionsThatAreNotCalls() throws Exception {
        Object store = newlyLoaded();
        store.getClass().getMethod("lazily").invoke(store);
        assertArrayEquals(
            new String[] {"shop:Store.Lazy.load#0", "shop:Store.Lazy.<clinit>#0", "shop:Store.lazily#0"},
            met.get(0).locs());
    }

    @Test
    void deepStacksAreCut() {
        new Store().deep(5000);
        assertEquals(Sites.DEPTH_MAX, met.get(0).locs().length);
        assertEquals("shop:Store.deep#0", met.get(0).loc);
        assertEquals("shop:Store.deep#1", met.get(0).locs()[29]);
    }

    @Test
    void theDigestIsThatOfAllNames() {
        new Store().put("key");
        String text = "shop:Store.write(int)#0\nshop:Store.put#2";
        assertEquals(Blake2b.hex(text.getBytes(StandardCharsets.UTF_8), 6), met.get(1).digest());
    }

    @Test
    void withoutFramesOfTheTargetTheInnermostFrameOutsideTheAgentIsUsed() throws Exception {
        Thread thread = new Thread(Store.probe);
        thread.start();
        thread.join();
        assertEquals(1, met.get(0).locs().length);
        assertTrue(met.get(0).loc.startsWith("java.lang:Thread.run"), met.get(0).loc);
    }

    @Test
    void aThreadHasItsOwnStack() throws Exception {
        Thread thread = new Thread(() -> {
            Cursor own = new Cursor(file);
            Store.probe = () -> met.add(sites.here(own));
            new Store().deep(1);
        });
        thread.start();
        thread.join();
        assertArrayEquals(new String[] {"shop:Store.deep#0", "shop:Store.deep#1"}, met.get(0).locs());
    }

    @Test
    void aVirtualThreadHasItsOwnStackToo() throws Exception {
        assumeTrue(NativeHelper.version() >= 21, "needs virtual threads");
        Runnable task = () -> {
            Cursor own = new Cursor(file);
            Store.probe = () -> met.add(sites.here(own));
            new Store().deep(1);
        };
        ((Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task)).join();
        assertArrayEquals(new String[] {"shop:Store.deep#0", "shop:Store.deep#1"}, met.get(0).locs());
    }

    @Test
    void manyStacksAreAllRecognised() {
        for (int round = 0; round < 2; round++) {
            for (int depth = 0; depth < 25; depth++) {
                new Store().deep(depth);
            }
        }
        Site[] frames = new Site[2];
        List<Stack> made = new ArrayList<>();
        for (int i = 0; i < 10_000; i++) {
            frames[0] = new Site(1000 + i, "a");
            frames[1] = new Site(500_000 - 7 * i, "b");
            int hash = Sites.mix(Sites.mix(Sites.HASH_START, frames[0].id), frames[1].id);
            Stack stack = sites.stack(cursor, frames, 2, hash);
            made.add(stack);
            assertSame(stack, sites.stack(cursor, frames.clone(), 2, hash));
        }
        assertEquals(10_000, made.stream().mapToInt(stack -> stack.id).distinct().count());
        for (int depth = 0; depth < 25; depth++) {
            assertSame(met.get(depth), met.get(25 + depth));
        }
    }

    @Test
    void anExceptionHasAStackToo() {
        try {
            new Store().fail();
        } catch (IllegalStateException error) {
            Stack stack = sites.of(cursor, error);
            assertEquals("shop:Store.fail#1", stack.loc);
            assertSame(stack, sites.of(cursor, error));
        }
        Stack other = sites.of(cursor, new Throwable("none of the target's"));
        assertFalse(other.loc.startsWith("shop"));
    }

    @Test
    void packagesDefineTheTarget() throws IOException {
        assertTrue(sites.isOfTarget(Store.class));
        assertTrue(sites.isOfTarget("shop.sub.Other"));
        assertFalse(sites.isOfTarget("shopping.Cart"));
        assertFalse(sites.isOfTarget(String.class));
        Sites all = new Sites(List.of(), file);
        assertTrue(all.isOfTarget("org.example.Main"));
        assertTrue(all.isOfTarget("Main"));
        assertFalse(all.isOfTarget(String.class));
        assertFalse(all.isOfTarget(Sites.class));
        assertFalse(new Sites(List.of("undermine"), file).isOfTarget(Sites.class));
    }

    @Test
    void classesOfTheTargetCanBeUnloaded() throws Exception {
        WeakReference<Class<?>> type = loadAndRun();
        for (int i = 0; i < 50 && type.get() != null; i++) {
            System.gc();
            Thread.sleep(20);
        }
        assertEquals(1, met.size());
        assertEquals(null, type.get());
    }

    private WeakReference<Class<?>> loadAndRun() throws Exception {
        Object store = newlyLoaded();
        store.getClass().getMethod("deep", int.class).invoke(store, 1);
        return new WeakReference<>(store.getClass());
    }

    /** A store with a newly loaded class. */
    private static Object newlyLoaded() throws Exception {
        Class<?> type = new OwnLoader().loadClass("shop.Store");
        type.getField("probe").set(null, Store.probe);
        return type.getDeclaredConstructor().newInstance();
    }

    /** Loads the target again. */
    private static final class OwnLoader extends ClassLoader {
        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith("shop.")) {
                return super.loadClass(name, resolve);
            }
            try (InputStream stream = getResourceAsStream(name.replace('.', '/') + ".class")) {
                byte[] bytes = stream.readAllBytes();
                return defineClass(name, bytes, 0, bytes.length);
            } catch (IOException error) {
                throw new ClassNotFoundException(name, error);
            }
        }
    }
}
