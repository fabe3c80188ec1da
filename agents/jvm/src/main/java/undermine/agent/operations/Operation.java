package undermine.agent.operations;

import java.util.Arrays;

/** One kind of operation, with the listeners before and after it. */
public final class Operation {
    /** How an operation changes the handler that its thread is in: see CurrentHandler. */
    public enum Handling {
        KEEPS,
        /** A new round of the handler begins when the operation ends. */
        PAUSES,
        /** A new handler begins when the operation ends. */
        OPENS,
        /** The operation is the handler. */
        SURROUNDS
    }

    static final OperationListener[] NONE = new OperationListener[0];

    public final String name;
    /** False: it is only observed, and no fault ever meets it. */
    public final boolean matchable;
    /** Other than KEEPS only if accesses to the heap are recorded. */
    public Handling handling = Handling.KEEPS;
    /** Its id in the event file; 0: not defined yet. */
    public int nameId;
    /** True if the target's variables are read before it, or after it. */
    public boolean readsBefore;
    public boolean readsAfter;
    public OperationListener[] before = NONE;
    public OperationListener[] after = NONE;

    public Operation(String name, boolean matchable) {
        this.name = name;
        this.matchable = matchable;
    }

    /** Add a listener before or after the operation. */
    public void add(OperationListener listener, boolean isBefore) {
        if (isBefore) {
            before = with(before, listener);
        } else {
            after = with(after, listener);
        }
    }

    private static OperationListener[] with(OperationListener[] listeners, OperationListener listener) {
        OperationListener[] longer = Arrays.copyOf(listeners, listeners.length + 1);
        longer[listeners.length] = listener;
        return longer;
    }
}
