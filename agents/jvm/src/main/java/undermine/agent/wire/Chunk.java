package undermine.agent.wire;

import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicInteger;

/** A chunk that is being written to, and how far. Whoever writes holds its lock. */
final class Chunk {
    /** Null until the first record, so that threads that record nothing take no chunk. */
    ByteBuffer buffer;
    int position = EventFile.CHUNK;
    private final AtomicInteger order = new AtomicInteger();

    /** The record is whole: only now it gets its length, so that one cut off by the process's end is seen to be so. */
    void complete(int size) {
        order.lazySet(position); // no store of the record comes behind this one
        buffer.putInt(position, size);
        position += size;
    }
}
