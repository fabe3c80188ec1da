/**
 * The way of each operation: it is recorded, a fault may meet it, and its end is recorded.
 *
 * {@code AgentCore} holds the parts of the running agent and {@code ThreadState} the state of each thread. The
 * agent's own operations are never recorded.
 */
package undermine.agent.record;
