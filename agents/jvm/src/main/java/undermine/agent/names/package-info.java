/**
 * Names of files, peers, threads and locks that recur from run to run.
 *
 * Call sites are named in the stacks package. Nothing here touches the network; files are looked at only to
 * resolve the folders of the configuration.
 */
package undermine.agent.names;
