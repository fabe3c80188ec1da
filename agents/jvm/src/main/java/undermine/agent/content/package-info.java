/**
 * Tokens of the bytes that operations move, so that the tool sees the same data in two places.
 *
 * Nothing here changes the bytes or moves a buffer, and nothing is computed unless the configuration asks for it.
 */
package undermine.agent.content;
