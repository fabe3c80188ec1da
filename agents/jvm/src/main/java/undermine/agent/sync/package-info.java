/**
 * Hooks for threads, monitors, and work that is handed over from one thread to another.
 *
 * These operations are only observed: no fault ever meets them.
 */
package undermine.agent.sync;
