package undermine.agent.wire;

/** Events of one thread that are not written yet. */
public interface UnwrittenEvents {
    /** Write them with another thread's cursor. */
    void settle(Cursor cursor);
}
