package undermine.agent.values;

import java.util.Map;
import java.util.TreeMap;

/** A number as a sum: a constant, and terms that are multiplied by constants. */
public record Sum(Map<Term, Double> terms, double constant) {
    private static final int TERMS_MAX = 6;

    public enum Kind {
        CLOCK, FIELD, OTHER
    }

    /**
     * A part of a sum.
     *
     * @param at the index of the instruction that reads a clock; -1 for a field
     * @param unit the seconds in one unit of a clock
     */
    public record Term(Kind kind, String text, int at, double unit) implements Comparable<Term> {
        @Override
        public int compareTo(Term other) {
            int order = kind.compareTo(other.kind);
            order = order != 0 ? order : text.compareTo(other.text);
            order = order != 0 ? order : Integer.compare(at, other.at);
            return order != 0 ? order : Double.compare(unit, other.unit);
        }
    }

    public static Sum of(double constant) {
        return new Sum(Map.of(), constant);
    }

    public static Sum of(Term term) {
        return new Sum(Map.of(term, 1.0), 0);
    }

    public boolean isConstant() {
        return terms.isEmpty();
    }

    public Sum times(double factor) {
        Map<Term, Double> found = new TreeMap<>();
        terms.forEach((term, count) -> found.put(term, count * factor));
        return new Sum(found, constant * factor);
    }

    /** This plus `factor` times the other sum; null if that has too many terms. */
    public Sum plus(Sum other, double factor) {
        Map<Term, Double> found = new TreeMap<>(terms);
        other.terms.forEach((term, count) -> found.merge(term, count * factor, Double::sum));
        found.values().removeIf(count -> Math.abs(count) < 1e-12);
        return found.size() > TERMS_MAX ? null : new Sum(found, constant + other.constant * factor);
    }

    /** The same sum, with its clock readings done by the instruction at this index. */
    public Sum readAt(int at) {
        Map<Term, Double> found = new TreeMap<>();
        terms.forEach((term, count) -> found.merge(
                term.kind == Kind.CLOCK ? new Term(Kind.CLOCK, term.text, at, term.unit) : term, count, Double::sum));
        found.values().removeIf(count -> Math.abs(count) < 1e-12);
        return new Sum(found, constant);
    }
}
