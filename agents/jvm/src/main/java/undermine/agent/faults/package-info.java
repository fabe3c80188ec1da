/**
 * The decision table of this process, its triggers, and the faults that the agent itself carries out.
 *
 * A fault is left in the {@code Call}: an error to raise, or that the operation would block. The record package
 * raises it. Nothing here fires without the tool's agreement.
 */
package undermine.agent.faults;
