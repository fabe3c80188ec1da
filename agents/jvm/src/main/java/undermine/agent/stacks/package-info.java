/**
 * Call sites and stacks: walking the current thread's stack, and naming its frames the same in every run.
 *
 * Class files are read here only to count calls; they are changed in the weave package. Nothing here keeps a class
 * of the target alive.
 */
package undermine.agent.stacks;
