package undermine.agent.process;

/** The clock of events: CLOCK_MONOTONIC in nanoseconds, which the tool and all agents of the machine share. */
public final class Clock {
    private static final boolean IS_FAKED = isFaked(System.getenv("LD_PRELOAD"));

    private Clock() {
    }

    /** The time now. If a library fakes the time (faketime), the native helper asks the kernel. */
    public static long now() {
        return IS_FAKED && NativeHelper.isLoaded() ? NativeHelper.clock() : System.nanoTime();
    }

    private static boolean isFaked(String preloaded) {
        return preloaded != null && preloaded.contains("faketime");
    }
}
