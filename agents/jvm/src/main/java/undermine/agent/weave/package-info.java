/**
 * Changes class files so that they call the agent's hooks: which methods, and how.
 *
 * Weaving adds no field and no method, so classes that are already loaded can be woven too. Nothing here runs when
 * an operation is done.
 */
package undermine.agent.weave;
