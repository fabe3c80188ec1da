/**
 * Everything that the agent exchanges with the tool: configuration, event file, shared state, and the socket for
 * questions.
 *
 * protocol/README.md defines the formats. This package never decides which events are written, nor what a fault
 * does.
 */
package undermine.agent.wire;
