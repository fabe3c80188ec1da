/**
 * The entry of the agent: it reads its configuration, builds its parts, weaves the classes and starts its threads.
 *
 * {@code Agent.premain} tells the story from the top. The other packages are listed here from the lowest to the
 * highest; each uses only those before it ({@code PackagesTest} checks that): lib, process, wire,
 * stacks, operations, names, faults, variables, record, net, files, sync, hooks, instead, weave.
 *
 * All classes are on the bootstrap loader's path, since the JDK's own classes call them. Nothing here ever raises
 * an exception into the target: if the agent can't start, the target runs as without it.
 */
package undermine.agent;
