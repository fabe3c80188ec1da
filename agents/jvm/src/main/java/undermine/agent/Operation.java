package undermine.agent;

/** One kind of operation, and the halves of triggers that may match it. */
final class Operation {
    static final Half[] NONE = new Half[0];

    final String name;
    /** False: observed only, never met by a fault. */
    final boolean matchable;
    /** In the event file; 0: not there yet. */
    int nameId;
    Half[] before = NONE;
    Half[] after = NONE;

    Operation(String name, boolean matchable) {
        this.name = name;
        this.matchable = matchable;
    }

    /** Put a half, or what is looked at before all halves, where it belongs. */
    void add(Half half, boolean isBefore, boolean isFirst) {
        if (isBefore) {
            before = with(before, half, isFirst);
        } else {
            after = with(after, half, isFirst);
        }
    }

    private static Half[] with(Half[] halves, Half half, boolean isFirst) {
        Half[] longer = new Half[halves.length + 1];
        System.arraycopy(halves, 0, longer, isFirst ? 1 : 0, halves.length);
        longer[isFirst ? 0 : halves.length] = half;
        return longer;
    }
}
