package undermine.agent.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import undermine.agent.record.ThreadState;
import undermine.agent.record.WovenFrame;

/** Woven methods push and pop their frames, whatever their hooks do. */
public class AdviceTest {
    private final ThreadState state = ThreadState.get();
    private WovenFrame outer;

    /** The class to weave. */
    public static final class Subject implements Callable<Integer> {
        @Override
        public Integer call() {
            return count();
        }

        private int count() {
            return 42;
        }
    }

    /** Hooks that continue, fail or answer. */
    public static final class Entry {
        static WovenFrame inner;

        private Entry() {
        }

        public static boolean goesOn(Object self) {
            inner = ThreadState.get().top();
            return false;
        }

        public static boolean fails(Object self) {
            throw new StackOverflowError();
        }

        public static boolean answers(Object self) {
            ThreadState state = ThreadState.get();
            state.pop();
            state.answer = 7;
            return true;
        }
    }

    @BeforeEach
    void enter() {
        outer = state.push();
    }

    @AfterEach
    void leave() {
        assertSame(outer, state.top());
        state.pop();
    }

    private int called(String hook) throws Exception {
        return woven("count()I", "weave/AdviceTest$Entry." + hook + "(this)").call();
    }

    @SuppressWarnings("unchecked")
    private static Callable<Integer> woven(String method, String entry) throws Exception {
        String name = Subject.class.getName();
        List<String> left = new ArrayList<>();
        byte[] bytes = Weaver.woven(name.replace('.', '/'), bytes(name), Map.of(method, new WovenMethod(entry, null)), left);
        assertEquals(List.of(), left);
        ClassLoader loader = new ClassLoader(AdviceTest.class.getClassLoader()) {
            @Override
            protected Class<?> loadClass(String wanted, boolean resolve) throws ClassNotFoundException {
                return wanted.equals(name) ? defineClass(name, bytes, 0, bytes.length) : super.loadClass(wanted, resolve);
            }
        };
        return (Callable<Integer>) loader.loadClass(name).getConstructor().newInstance();
    }

    private static byte[] bytes(String name) throws IOException {
        try (InputStream file = AdviceTest.class.getResourceAsStream("/" + name.replace('.', '/') + ".class")) {
            return file.readAllBytes();
        }
    }

    @Test
    void aMethodHasAFrameOfItsOwnUntilItEnds() throws Exception {
        assertEquals(42, called("goesOn"));
        assertNotSame(outer, Entry.inner);
    }

    @Test
    void anErrorInAHookLeavesNoFrameBehind() {
        assertThrows(StackOverflowError.class, () -> called("fails"));
    }

    @Test
    void aMethodAnswersTheNumberThatItsHookLeaves() throws Exception {
        assertEquals(7, called("answers"));
        assertEquals(0, state.answer);
    }
}
