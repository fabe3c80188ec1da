package undermine.agent.stacks;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class LocsTest {
    @ParameterizedTest
    @CsvSource({
        "a.b.Outer, run, a.b:Outer.run",
        "Main, main, :Main.main",
        "a.Outer$Inner, <init>, a:Outer.Inner.<init>",
        "a.Outer$1, run, a:Outer.<1>.run",
        "a.Outer$Inner$12, run, a:Outer.Inner.<12>.run",
        "a.Outer$1Local, run, a:Outer.<1>Local.run",
        "a.Outer, lambda$run$3, a:Outer.run.<lambda>",
        "a.Outer, lambda$new$0, a:Outer.<init>.<lambda>",
        "a.Outer, lambda$static$0, a:Outer.<clinit>.<lambda>",
        "a.Outer$$Lambda/0x00007f1234, run, a:Outer$$Lambda.run",
        "a.$Proxy17, call, a:$Proxy.call",
        "a.Object$, apply, a:Object$.apply",
    })
    void names(String type, String method, String loc) {
        assertEquals(loc, Locs.of(type, method, "()V", null));
    }
}
