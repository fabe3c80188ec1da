/**
 * The variables of the target that triggers ask about: finding them, and publishing their values in the shared state.
 *
 * They are only read, never written; a class of the target is never initialised for it.
 */
package undermine.agent.variables;
