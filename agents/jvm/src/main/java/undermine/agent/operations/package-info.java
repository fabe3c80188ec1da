/**
 * The nouns of the agent: an operation, the subject that it acts on, one call of it, and logical operations that the
 * user named.
 *
 * These classes hold data. They record nothing and decide nothing.
 */
package undermine.agent.operations;
