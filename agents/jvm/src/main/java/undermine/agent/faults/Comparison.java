package undermine.agent.faults;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import undermine.agent.lib.JsonValues;
import undermine.agent.wire.SharedState;

/** A condition on a published variable: it is compared with a value or with another variable. */
final class Comparison {
    /** Stands for an absent variable in texts. */
    static final String ABSENT = "∅";

    private final int slot;
    private final String how;
    private final boolean hasOther;
    private final int other;
    private final String value;

    private Comparison(Map<String, Object> description) {
        slot = JsonValues.number(description.get("slot"));
        how = JsonValues.text(description.get("is"));
        hasOther = description.containsKey("other");
        other = hasOther ? JsonValues.number(description.get("other")) : 0;
        Object given = description.get("value");
        value = given == null ? null : String.valueOf(given);
    }

    static List<Comparison> all(Object descriptions) {
        List<Comparison> found = new ArrayList<Comparison>();
        for (Object description : JsonValues.list(descriptions)) {
            found.add(new Comparison(JsonValues.map(description)));
        }
        return found;
    }

    static boolean allHold(List<Comparison> comparisons, SharedState state) {
        for (int i = 0; i < comparisons.size(); i++) {
            Comparison each = comparisons.get(i);
            if (!holds(state.text(each.slot), each.how, each.hasOther ? state.text(each.other) : each.value)) {
                return false;
            }
        }
        return true;
    }

    /** Compare two texts, as numbers if both are numbers. Null is absent, and equal only to null. */
    static boolean holds(String left, String how, String right) {
        if (left == null || right == null) {
            boolean same = left == null && right == null;
            return how.equals("==") ? same : how.equals("!=") && !same;
        }
        Number one = number(left);
        Number two = one == null ? null : number(right);
        if (two == null) {
            return answers(how, left.compareTo(right));
        }
        return answers(how, compare(one, two));
    }

    /** How two texts compare: `<`, `=` or `>` if both are numbers, else `=` or `≠`; `∅` if just one is absent. */
    static String relation(String left, String right) {
        if (left == null || right == null) {
            return left == null && right == null ? "=" : ABSENT;
        }
        boolean areNumbers = number(left) != null && number(right) != null;
        return holds(left, "==", right) ? "=" : !areNumbers ? "≠" : holds(left, "<", right) ? "<" : ">";
    }

    private static boolean answers(String how, int order) {
        switch (how) {
            case "==":
                return order == 0;
            case "!=":
                return order != 0;
            case "<":
                return order < 0;
            default:
                return order > 0;
        }
    }

    /** Integers are compared exactly, also with other numbers. */
    private static int compare(Number one, Number two) {
        boolean isOneInfinite = one instanceof Double && ((Double) one).isInfinite();
        boolean isTwoInfinite = two instanceof Double && ((Double) two).isInfinite();
        if (isOneInfinite || isTwoInfinite) {
            return Double.compare(isOneInfinite ? one.doubleValue() : 0, isTwoInfinite ? two.doubleValue() : 0);
        }
        return exact(one).compareTo(exact(two));
    }

    private static BigDecimal exact(Number number) {
        return number instanceof BigInteger ? new BigDecimal((BigInteger) number) : new BigDecimal(number.doubleValue());
    }

    /** A BigInteger or a Double; null if the text isn't a number. */
    private static Number number(String text) {
        boolean isSigned = text.startsWith("-") || text.startsWith("+");
        String bare = isSigned ? text.substring(1) : text;
        if (!isNumber(bare)) {
            return null;
        }
        return isWhole(bare) ? (Number) new BigInteger(text) : (Number) Double.valueOf(text);
    }

    private static boolean isWhole(String bare) {
        return bare.indexOf('.') < 0 && bare.indexOf('e') < 0 && bare.indexOf('E') < 0;
    }

    /** Digits, optionally with a point and an exponent. Java's own parser would also accept `1d`, `NaN` and hexadecimal numbers. */
    private static boolean isNumber(String bare) {
        int at = digits(bare, 0);
        boolean hasDigits = at > 0;
        if (at < bare.length() && bare.charAt(at) == '.') {
            int end = digits(bare, at + 1);
            hasDigits |= end > at + 1;
            at = end;
        }
        if (hasDigits && at < bare.length() && (bare.charAt(at) == 'e' || bare.charAt(at) == 'E')) {
            at++;
            if (at < bare.length() && (bare.charAt(at) == '-' || bare.charAt(at) == '+')) {
                at++;
            }
            int end = digits(bare, at);
            hasDigits = end > at;
            at = end;
        }
        return hasDigits && at == bare.length();
    }

    /** The end of the digits that begin here. */
    private static int digits(String text, int at) {
        int end = at;
        while (end < text.length() && isDigit(text, end)) {
            end++;
        }
        return end;
    }

    private static boolean isDigit(String text, int at) {
        return text.charAt(at) >= '0' && text.charAt(at) <= '9';
    }
}
