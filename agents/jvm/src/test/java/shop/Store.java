package shop;

/** A target for tests of stacks, with each way to be called once. */
public class Store {
    /** Called by the innermost method. */
    public static Runnable probe;

    public void put(String key) {
        System.identityHashCode(key);
        write(key);
        write(1);
    }

    void write(String key) {
        if (key.isEmpty()) {
            probe.run();
        }
        new Inner().run();
    }

    void write(int key) {
        probe.run();
    }

    /** Two calls on one line. */
    public void twice() {
        probe.run(); probe.run();
    }

    public void deep(int left) {
        if (left == 0) {
            probe.run();
        } else {
            deep(left - 1);
        }
    }

    public void fail() {
        String.valueOf(1);
        throw new IllegalStateException("no room");
    }

    class Inner {
        void run() {
            Runnable first = () -> probe.run();
            Runnable second = () -> {
                System.identityHashCode(this);
                new Runnable() {
                    @Override
                    public void run() {
                        first.run();
                    }
                }.run();
            };
            second.run();
        }
    }

    /** Runs code when it is loaded, by an instruction that isn't a call. */
    public static class Lazy {
        public static int value = load();

        static int load() {
            probe.run();
            return 1;
        }
    }

    public int lazily() {
        return Lazy.value;
    }
}
