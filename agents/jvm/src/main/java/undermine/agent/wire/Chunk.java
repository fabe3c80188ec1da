package undermine.agent.wire;

import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicInteger;

/** A chunk of the event file that is being written, and the position in it. Writers hold its lock. */
final class Chunk {
    /** Null until the first record: threads that record nothing take no chunk. */
    ByteBuffer buffer;
    int position = EventFile.CHUNK;
    private final AtomicInteger order = new AtomicInteger();

    /**
     * Complete a record by writing its length last, so that a reader recognises a record that was cut off by the end of
     * the process.
     */
    void complete(int size) {
        order.lazySet(position); // keeps the stores of the record before the next one
        buffer.putInt(position, size);
        position += size;
    }
}
