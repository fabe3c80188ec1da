package undermine.agent.process;

import java.lang.instrument.Instrumentation;
import java.util.Map;
import java.util.Set;

/** Opens packages to the agent only. Loaded by name, since Java 8 has no modules. */
final class OpenedPackages {
    private static volatile Instrumentation instrumentation;

    private OpenedPackages() {
    }

    /** Open those of the JDK that the agent needs. */
    static void open(Instrumentation given) {
        instrumentation = given;
        Module own = OpenedPackages.class.getModule();
        given.redefineModule(Object.class.getModule(), Set.of(), Map.of(),
                Map.of("sun.nio.ch", Set.of(own), "java.net", Set.of(own), "jdk.internal.misc", Set.of(own),
                        "java.util", Set.of(own), "java.util.concurrent", Set.of(own),
                        "java.util.concurrent.locks", Set.of(own), "java.lang", Set.of(own), "sun.nio.fs", Set.of(own),
                        "sun.security.ssl", Set.of(own)),
                Set.of(), Map.of());
    }

    /** Open the package of one class of the target. */
    static boolean openPackageOf(Class<?> type) {
        if (instrumentation == null || !type.getModule().isNamed() || type.getClassLoader() == null) {
            return false;
        }
        Set<Module> own = Set.of(OpenedPackages.class.getModule());
        instrumentation.redefineModule(
                type.getModule(), Set.of(), Map.of(), Map.of(type.getPackageName(), own), Set.of(), Map.of());
        return true;
    }
}
