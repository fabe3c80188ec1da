/**
 * Small library code that knows nothing of the agent: JSON, BLAKE2b, a weak identity map, files that only their owner
 * can read.
 *
 * It stands for third-party libraries, which must not get into the target's process; docs/decisions/0012 gives the
 * reasons. Nothing here reads or changes the state of the agent.
 */
package undermine.agent.lib;
