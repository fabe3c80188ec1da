/**
 * This process: its ids, its clock, its native helper, and the way to kill it at once.
 *
 * It decides nothing: the faults package says when the process has to die.
 */
package undermine.agent.process;
