/**
 * The decision table of this process, its triggers, and the faults that the agent itself carries out.
 *
 * A fault is left in the {@code Call}: an error to raise, that the operation would block, that its message is lost, or a
 * change of its data. The record and hooks packages do it. Nothing here fires without the tool's agreement.
 */
package undermine.agent.faults;
