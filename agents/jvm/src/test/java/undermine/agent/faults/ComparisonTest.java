package undermine.agent.faults;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ComparisonTest {
    @ParameterizedTest
    @CsvSource(nullValues = "absent", value = {
        "leader, ==, leader, true", "leader, ==, Leader, false", "leader, !=, follower, true",
        "9, <, 10, true", "10, >, 9, true", "9, <, 9, false", "a9, <, a10, false", "abc, <, abd, true",
        "1, ==, 1.0, true", "1e3, ==, 1000, true", "-0.5, <, 0, true", "1_000, ==, 1000, false", "+5, ==, 5, true",
        "9007199254740993, ==, 9007199254740992, false", "9007199254740993, >, 9007199254740992.0, true",
        "inf, ==, Infinity, false", "1e999, >, 99999999999999999999, true", "-1e999, <, -1, true", "nan, ==, nan, true",
        "' 1', ==, 1, false", "١, ==, 1, false",
        "1d, ==, 1, false", "0x10, ==, 16, false", "1., ==, 1, true", ".5, ==, 0.5, true", "., ==, 0, false",
        "1__0, ==, 10, false", "e5, ==, 0, false", "5e, ==, 5, false", "10, <, ten, true",
        "absent, ==, absent, true", "absent, !=, x, true", "absent, ==, x, false", "x, !=, absent, true",
        "absent, <, 5, false", "5, >, absent, false", "absent, !=, absent, false",
    })
    void compares(String left, String how, String right, boolean holds) {
        assertEquals(holds, Comparison.holds(left, how, right));
    }

    @ParameterizedTest
    @CsvSource(nullValues = "absent", value = {
        "9, 10, <", "10, 9, >", "1, 1.0, =", "a, b, ≠", "a, a, =", "1, a, ≠", "nan, 1, ≠", "nan, nan, =", "inf, 1, ≠", "absent, absent, =", "absent, 1, ∅",
        "a, absent, ∅",
    })
    void tellsHowTwoTextsCompare(String left, String right, String relation) {
        assertEquals(relation, Comparison.relation(left, right));
    }
}
