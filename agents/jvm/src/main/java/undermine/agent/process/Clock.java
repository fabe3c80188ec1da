package undermine.agent.process;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;

/**
 * The process's monotonic clock in nanoseconds, and the true one: CLOCK_MONOTONIC, which the tool and all agents of the
 * machine share. They differ if the process's clock runs faster (`run.speed`). The agent lives in the process's time, and
 * plans name seconds of that; only what it tells the tool is true time.
 */
public final class Clock {
    private static final boolean IS_FAKED = isFaked(System.getenv("LD_PRELOAD"));

    private static final String LIBRARY = "undermine_clock";
    private static long speed = 1;
    private static long origin;

    private Clock() {
    }

    /**
     * Note the speed of this process's clock. Throws if the process has not loaded the library that makes it faster: then it
     * runs at speed 1.
     */
    public static void begin(long wantedSpeed, long originNs) throws IOException {
        if (wantedSpeed <= 1) {
            return;
        }
        for (String line : Files.readAllLines(Paths.get("/proc/self/maps"), StandardCharsets.ISO_8859_1)) {
            if (line.contains(LIBRARY)) {
                origin = originNs;
                speed = wantedSpeed;
                return;
            }
        }
        throw new IOException("this process runs at speed 1: it did not load the library " + LIBRARY);
    }

    /** A moment of the process's clock, as the tool's clock shows it. */
    public static long trueTime(long moment) {
        return speed == 1 ? moment : origin + (moment - origin) / speed;
    }

    /** A length of the process's time in true time. */
    public static long trueLength(long length) {
        return length / speed;
    }

    /** The time by the process's clock that takes this length of true time. */
    public static long ofTrueLength(long length) {
        return length * speed;
    }

    /** The time now. If a library fakes the time (faketime), the native helper asks the kernel. */
    public static long now() {
        return IS_FAKED && NativeHelper.isLoaded() ? NativeHelper.clock() : System.nanoTime();
    }

    private static boolean isFaked(String preloaded) {
        return preloaded != null && preloaded.contains("faketime");
    }
}
