package undermine.agent.lib;

/** Throws exceptions that the calling method doesn't declare. */
public final class Unchecked {
    private Unchecked() {
    }

    @SuppressWarnings("unchecked")
    public static <T extends Throwable> void raise(Throwable error) throws T {
        throw (T) error;
    }
}
