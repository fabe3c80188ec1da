/**
 * Weaves the target's own classes for the families that are only observed: calls, monitors, comparisons of clock readings and
 * accesses to the heap.
 *
 * It changes only code inside methods, and never decides which classes are the target's own. Nothing here runs when an
 * operation is done.
 */
package undermine.agent.own;
