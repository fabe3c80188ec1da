package undermine.agent.heap;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;
import java.util.function.IntToLongFunction;
import org.junit.jupiter.api.Test;

/** The first occurrences of an access are recorded, then fewer and fewer. */
class RepetitionsTest {
    private static List<Integer> wanted(int count, IntToLongFunction access, IntFunction<String> content) {
        Repetitions repetitions = new Repetitions();
        List<Integer> found = new ArrayList<>();
        for (int i = 1; i <= count; i++) {
            if (repetitions.isWanted(access.applyAsLong(i), 3, content.apply(i))) {
                found.add(i);
            }
        }
        return found;
    }

    @Test
    void anAccessIsRecordedAtPowersOfTwo() {
        List<Integer> found = wanted(300, i -> 7, i -> "5");
        assertEquals(16, found.get(15));
        assertEquals(List.of(32, 64, 128, 256), found.subList(16, found.size()));
    }

    @Test
    void accessesWithTheSameMaskedNameAreLimitedTogether() {
        List<Integer> found = wanted(1100, i -> i, i -> "");
        assertEquals(List.of(64, 128, 256, 512, 1024), found.subList(63, found.size()));
    }

    @Test
    void anotherValueIsRecordedAtOnce() {
        List<Integer> found = wanted(100, i -> 7, i -> i < 50 || i > 90 ? "1" : "");
        assertEquals(List.of(32, 50, 64, 91), found.subList(16, found.size()));
    }

    @Test
    void valuesThatAlternateAreLimitedToo() {
        List<Integer> found = wanted(300, i -> 7, i -> i % 2 == 0 ? "true" : "false");
        assertEquals(List.of(17, 32, 33, 64, 65, 128, 129, 256, 257), found.subList(16, found.size()));
    }
}
