/**
 * Hooks in sockets, channels, datagrams, TLS and Netty's native transport, and the names of their connections.
 *
 * Unix sockets are never observed. Each hook only begins an operation; its end is in the hooks package.
 */
package undermine.agent.net;
