package undermine.agent.process;

import java.lang.instrument.Instrumentation;
import java.util.Map;
import java.util.Set;

/** Opens packages of the JDK to the agent only. Loaded by name, since Java 8 has no modules. */
final class OpenedPackages {
    private OpenedPackages() {
    }

    static void open(Instrumentation instrumentation) {
        Module own = OpenedPackages.class.getModule();
        instrumentation.redefineModule(Object.class.getModule(), Set.of(), Map.of(),
                Map.of("sun.nio.ch", Set.of(own), "java.net", Set.of(own), "jdk.internal.misc", Set.of(own),
                        "java.util", Set.of(own), "java.util.concurrent", Set.of(own),
                        "java.util.concurrent.locks", Set.of(own), "java.lang", Set.of(own), "sun.nio.fs", Set.of(own),
                        "sun.security.ssl", Set.of(own)),
                Set.of(), Map.of());
    }
}
