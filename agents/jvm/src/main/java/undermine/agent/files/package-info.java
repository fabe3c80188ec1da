/**
 * Hooks in the JDK's lowest methods for files.
 *
 * A file is recorded only if it is below one of the configured folders. Each hook only begins an operation; its
 * end is in the hooks package.
 */
package undermine.agent.files;
