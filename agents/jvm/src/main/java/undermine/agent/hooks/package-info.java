/**
 * The ends of woven methods, and the methods that the user named as logical operations.
 *
 * Woven code calls {@code Hooks} in each method that it leaves. Nothing here knows how a method was woven.
 */
package undermine.agent.hooks;
