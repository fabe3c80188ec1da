package undermine.agent.operations;

/** One kind of operation, and the halves of triggers that may match it. */
public final class Operation {
    static final OperationListener[] NONE = new OperationListener[0];

    public final String name;
    /** False: observed only, never met by a fault. */
    public final boolean matchable;
    /** In the event file; 0: not there yet. */
    public int nameId;
    public OperationListener[] before = NONE;
    public OperationListener[] after = NONE;

    public Operation(String name, boolean matchable) {
        this.name = name;
        this.matchable = matchable;
    }

    /** Put a half, or what is looked at before all halves, where it belongs. */
    public void add(OperationListener half, boolean isBefore, boolean isFirst) {
        if (isBefore) {
            before = with(before, half, isFirst);
        } else {
            after = with(after, half, isFirst);
        }
    }

    private static OperationListener[] with(OperationListener[] halves, OperationListener half, boolean isFirst) {
        OperationListener[] longer = new OperationListener[halves.length + 1];
        System.arraycopy(halves, 0, longer, isFirst ? 1 : 0, halves.length);
        longer[isFirst ? 0 : halves.length] = half;
        return longer;
    }
}
