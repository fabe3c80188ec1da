package undermine.agent.values;

import java.util.LinkedHashSet;
import java.util.Set;
import org.objectweb.asm.tree.analysis.Value;

/**
 * Everything that is known of a value on the stack or in a local variable.
 *
 * @param size 1 or 2
 * @param type the internal name of its class; empty if it is a number or unknown
 * @param origins where the object may come from; empty if unknown
 * @param sums what the number may be; empty if unknown
 */
public record AbstractValue(int size, String type, Set<Origin> origins, Set<Sum> sums) implements Value {
    private static final int ALTERNATIVES_MAX = 4;
    private static final int KEY_MAX = 160;
    public static final AbstractValue UNSET = new AbstractValue(1, "", Set.of(), Set.of());
    public static final AbstractValue LONG = new AbstractValue(2, "", Set.of(), Set.of());

    @Override
    public int getSize() {
        return size;
    }

    public static AbstractValue unknown(int size) {
        return size == 2 ? LONG : UNSET;
    }

    public static AbstractValue object(String type, Origin origin) {
        return new AbstractValue(1, type, Set.of(origin), Set.of());
    }

    public static AbstractValue number(int size, Set<Sum> sums) {
        return sums.isEmpty() ? unknown(size) : new AbstractValue(size, "", Set.of(), sums);
    }

    /** The name of the object; empty if it may be one of several, or is unknown. */
    public String key() {
        if (origins.size() != 1) {
            return "";
        }
        String text = origins.iterator().next().text();
        return text.length() > KEY_MAX ? "" : text;
    }

    public boolean isOnly(Origin.Kind kind) {
        return !origins.isEmpty() && origins.stream().allMatch(origin -> origin.kind() == kind);
    }

    /** The value if either may be it. */
    public AbstractValue or(AbstractValue other) {
        if (equals(other)) {
            return this;
        }
        if (size != other.size) {
            return UNSET;
        }
        boolean isNull = isOnly(Origin.Kind.NULL);
        String joined = type.equals(other.type) || other.isOnly(Origin.Kind.NULL) ? type : isNull ? other.type : "";
        AbstractValue found = new AbstractValue(size, joined, both(origins, other.origins), both(sums, other.sums));
        return found.equals(this) ? this : found;
    }

    private static <T> Set<T> both(Set<T> these, Set<T> those) {
        if (these.isEmpty() || those.isEmpty()) {
            return Set.of();
        }
        Set<T> found = new LinkedHashSet<>(these);
        found.addAll(those);
        if (found.size() > 1) {
            found.remove(Origin.NULL);
        }
        return found.size() > ALTERNATIVES_MAX ? Set.of() : found;
    }
}
