/**
 * Methods that the target calls instead of the JDK's: each does the same and records it.
 *
 * {@code ReplacedCalls} in the weave package lists them. A call site keeps its number, because {@code CallCounter}
 * counts calls into this package like the calls that they replace. None of these methods changes what the replaced
 * one returns or raises.
 */
package undermine.agent.instead;
