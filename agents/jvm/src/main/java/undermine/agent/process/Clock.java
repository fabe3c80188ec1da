package undermine.agent.process;

/** The clock of events: CLOCK_MONOTONIC in nanoseconds, as the tool and all other agents of the machine read it. */
public final class Clock {
    private static final boolean IS_FAKED = isFaked(System.getenv("LD_PRELOAD"));

    private Clock() {
    }

    /** Where a library fakes the time, the kernel itself is asked, if the native helper is there. */
    public static long now() {
        return IS_FAKED && NativeHelper.isLoaded() ? NativeHelper.clock() : System.nanoTime();
    }

    private static boolean isFaked(String preloaded) {
        return preloaded != null && preloaded.contains("faketime");
    }
}
