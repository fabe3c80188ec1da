/**
 * The variables of the target that the user names: finding them, recording their values, and publishing those that
 * triggers ask about in the shared state. A survey finds fields that the user could name.
 *
 * They are only read, never written. No method of the target runs for it, and no class of the target is initialised.
 */
package undermine.agent.variables;
