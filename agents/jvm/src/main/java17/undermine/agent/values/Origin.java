package undermine.agent.values;

/**
 * Where an object may come from.
 *
 * @param text a name that is the same for the same object in all methods, as far as the code shows it
 * @param at the index of the instruction that created it; -1 if that doesn't matter
 */
public record Origin(Kind kind, String text, int at) {
    public enum Kind {
        NULL, THIS, PARAMETER, FIELD, NEW, CALL, CLASS, LAMBDA
    }

    public static final Origin NULL = new Origin(Kind.NULL, "null", -1);
}
