package undermine.agent.stacks;

import undermine.agent.wire.Cursor;

/** A thread's room for walking its stack, used again for each walk. */
final class WalkRoom {
    /** The target's frames of the walk under way, innermost first. */
    final Site[] frames = new Site[Sites.DEPTH_MAX];
    /** The StackWalker's function. */
    Object walk;
    /** The native helper's numbers. */
    long[] numbers;
    /** The exception that the JVM fills in. */
    Throwable probe;
    boolean walking;

    private WalkRoom() {
    }

    static WalkRoom of(Cursor cursor) {
        WalkRoom room = (WalkRoom) cursor.walkRoom;
        if (room == null) {
            room = new WalkRoom();
            cursor.walkRoom = room;
        }
        return room;
    }
}
