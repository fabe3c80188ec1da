/**
 * The values that the code of a method computes, as far as its class file shows: where an object comes from, and sums of numbers.
 *
 * Used only by {@code facts}, never inside a target. It never loads or runs a class of the target.
 */
package undermine.agent.values;
