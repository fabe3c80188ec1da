package undermine.agent.process;

/** Questions about threads that Java 8 has no method for, and a sleep that keeps interrupts. */
public final class Threads {
    private Threads() {
    }

    public static boolean isVirtual(Thread thread) {
        String name = thread.getClass().getName();
        return name.startsWith("java.lang.") && name.endsWith("VirtualThread");
    }

    /**
     * Sleep for `ns` nanoseconds. An interrupt doesn't end the sleep; it is pending again afterwards. Parking would use
     * up the thread's permit.
     */
    public static void sleep(long ns) {
        boolean wasInterrupted = Thread.interrupted();
        long until = Clock.now() + ns;
        for (long left = ns; left > 0; left = until - Clock.now()) {
            try {
                Thread.sleep(left / 1000000, (int) (left % 1000000));
                break;
            } catch (InterruptedException interrupt) {
                wasInterrupted = true;
            }
        }
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
