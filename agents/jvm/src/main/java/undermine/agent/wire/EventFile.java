package undermine.agent.wire;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.channels.SeekableByteChannel;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import undermine.agent.lib.OwnerOnlyFile;
import undermine.agent.lib.Utf8;
import undermine.agent.process.AgentThread;
import undermine.agent.process.Clock;

/**
 * Writes the event file of this process, as protocol/README.md defines it, into mapped memory, which survives SIGKILL.
 *
 * Each thread has a chunk of its own; virtual threads, and threads beyond the first 512, share sixteen. A definition is
 * written before its id is used, so every id that a reader finds is defined. If the file can't grow (disk full),
 * recording stops silently: later records go to scratch memory.
 */
public final class EventFile {
    public static final int CHUNK = 65536;
    /** The number of chunks that are added at once: mapping a file takes longer than filling a chunk. */
    private static final int GROWTH = 4;
    private static final byte[] MAGIC = {'U', 'M', 'C', '1'};
    private static final byte[] EMPTY = Arrays.copyOf(MAGIC, CHUNK);
    private static final int TEXT_MAX = 4000;
    private static final int INTERNED_MAX = 100_000;
    private static final int OWNERS_MAX = 512;
    private static final int SHARED = 16;
    private static final long GROW_NS_MAX = 1_000_000_000L;

    private static final int PROCESS = 1;
    private static final int STRING = 2;
    private static final int FRAME = 3;
    private static final int STACK = 4;
    private static final int BEGIN = 5;
    private static final int END = 6;
    private static final int RECEIPT = 7;
    private static final int BEGIN_SIZE = 45;
    private static final int END_SIZE = 29;
    private static final int FRAME_SIZE = 17;
    private static final int RECEIPT_SIZE = 35;

    private final String path;
    private long chunks;
    /** Chunks that are not assigned yet, or null. */
    private ByteBuffer spare;
    private boolean failed;
    private final ArrayDeque<Chunk> free = new ArrayDeque<Chunk>();
    private final List<Cursor> owners = new ArrayList<Cursor>();
    private final Chunk[] shared = new Chunk[SHARED];
    private int nextShared;
    private final ConcurrentHashMap<String, Integer> strings = new ConcurrentHashMap<String, Integer>();
    private final AtomicInteger stringIds = new AtomicInteger();
    private final AtomicInteger frameIds = new AtomicInteger();
    private final AtomicInteger stackIds = new AtomicInteger();
    private final AtomicInteger sequence = new AtomicInteger();

    /**
     * Create the file. An existing one is never used: another program may have run under the same pid, or may still have
     * it mapped.
     */
    public EventFile(String path) throws IOException {
        this.path = path;
        strings.put("", 0);
        SeekableByteChannel file = OwnerOnlyFile.create(java.nio.file.Paths.get(path));
        if (file == null) {
            throw new IOException(path + " exists");
        }
        file.close();
    }

    /** The chunk for a thread that has just created its cursor. */
    synchronized Chunk take(Cursor cursor, boolean isVirtual) {
        if (!isVirtual && free.isEmpty()) {
            sweep();
        }
        if (isVirtual || owners.size() >= OWNERS_MAX) {
            return share();
        }
        owners.add(cursor);
        Chunk chunk = free.poll();
        return chunk == null ? new Chunk() : chunk;
    }

    private Chunk share() {
        int number = nextShared++ % SHARED;
        if (shared[number] == null) {
            shared[number] = new Chunk();
        }
        return shared[number];
    }

    private void sweep() {
        for (Iterator<Cursor> all = owners.iterator(); all.hasNext();) {
            Cursor cursor = all.next();
            if (cursor.isDead()) {
                all.remove();
                free.add(cursor.chunk);
            }
        }
    }

    synchronized void giveBack(Cursor cursor) {
        if (owners.remove(cursor)) {
            free.add(cursor.chunk);
        }
    }

    /** The cursors that have a chunk of their own. */
    public synchronized List<Cursor> owners() {
        return new ArrayList<Cursor>(owners);
    }

    public int nextSeq() {
        return sequence.incrementAndGet();
    }

    public void begin(Cursor cursor, int seq, long t, int op, int stack, int target, int resource, int thread, long size) {
        Chunk chunk = cursor.chunk;
        synchronized (chunk) {
            putBegin(chunk, seq, t, op, stack, target, resource, thread, size);
        }
    }

    public void end(Cursor cursor, int seq, long t, long result, int error) {
        Chunk chunk = cursor.chunk;
        synchronized (chunk) {
            putEnd(chunk, seq, t, result, error);
        }
    }

    /** Write begin and end of an operation that is already done. */
    public void whole(Cursor cursor, int seq, long t, int op, int stack, int target, int resource, int thread, long size,
            long end, long result) {
        Chunk chunk = cursor.chunk;
        synchronized (chunk) {
            putBegin(chunk, seq, t, op, stack, target, resource, thread, size);
            putEnd(chunk, seq, end, result, 0);
        }
    }

    private void putBegin(
            Chunk chunk, int seq, long t, int op, int stack, int target, int resource, int thread, long size) {
        ByteBuffer buffer = room(chunk, BEGIN_SIZE);
        int at = chunk.position + 4;
        buffer.put(at, (byte) BEGIN);
        buffer.putInt(at + 1, seq);
        buffer.putLong(at + 5, Clock.trueTime(t));
        buffer.putInt(at + 13, op);
        buffer.putInt(at + 17, stack);
        buffer.putInt(at + 21, target);
        buffer.putInt(at + 25, resource);
        buffer.putInt(at + 29, thread);
        buffer.putLong(at + 33, size);
        chunk.complete(BEGIN_SIZE);
    }

    private void putEnd(Chunk chunk, int seq, long t, long result, int error) {
        ByteBuffer buffer = room(chunk, END_SIZE);
        int at = chunk.position + 4;
        buffer.put(at, (byte) END);
        buffer.putInt(at + 1, seq);
        buffer.putLong(at + 5, Clock.trueTime(t));
        buffer.putLong(at + 13, result);
        buffer.putInt(at + 21, error);
        chunk.complete(END_SIZE);
    }

    public void receipt(Cursor cursor, int seq, long t, int step, long heldNs, int action, int detail) {
        Chunk chunk = cursor.chunk;
        synchronized (chunk) {
            ByteBuffer buffer = room(chunk, RECEIPT_SIZE);
            int at = chunk.position + 4;
            buffer.put(at, (byte) RECEIPT);
            buffer.putInt(at + 1, seq);
            buffer.putLong(at + 5, Clock.trueTime(t));
            buffer.putShort(at + 13, (short) step);
            buffer.putLong(at + 15, Clock.trueLength(heldNs));
            buffer.putInt(at + 23, action);
            buffer.putInt(at + 27, detail);
            chunk.complete(RECEIPT_SIZE);
        }
    }

    public void process(Cursor cursor, String json) {
        byte[] text = Utf8.bytes(json);
        Chunk chunk = cursor.chunk;
        synchronized (chunk) {
            int size = 5 + text.length;
            ByteBuffer buffer = room(chunk, size);
            buffer.put(chunk.position + 4, (byte) PROCESS);
            putBytes(buffer, chunk.position + 5, text, text.length);
            chunk.complete(size);
        }
    }

    /** The id of a text, defined at its first use. */
    public int string(Cursor cursor, String text) {
        Integer known = strings.get(text);
        if (known != null) {
            return known;
        }
        int id = define(cursor, text);
        if (strings.size() < INTERNED_MAX) {
            strings.putIfAbsent(text, id);
        }
        return id;
    }

    /** Define a text that is never looked up again. */
    public int define(Cursor cursor, String text) {
        int id = stringIds.incrementAndGet();
        defineString(cursor.chunk, id, Utf8.bytes(text));
        return id;
    }

    private void defineString(Chunk chunk, int id, byte[] text) {
        int length = Math.min(text.length, TEXT_MAX);
        synchronized (chunk) {
            int size = 9 + length;
            ByteBuffer buffer = room(chunk, size);
            buffer.put(chunk.position + 4, (byte) STRING);
            buffer.putInt(chunk.position + 5, id);
            putBytes(buffer, chunk.position + 9, text, length);
            chunk.complete(size);
        }
    }

    public int frame(Cursor cursor, String loc, int line) {
        int text = string(cursor, loc);
        int id = frameIds.incrementAndGet();
        Chunk chunk = cursor.chunk;
        synchronized (chunk) {
            ByteBuffer buffer = room(chunk, FRAME_SIZE);
            int at = chunk.position + 4;
            buffer.put(at, (byte) FRAME);
            buffer.putInt(at + 1, id);
            buffer.putInt(at + 5, text);
            buffer.putInt(at + 9, line);
            chunk.complete(FRAME_SIZE);
        }
        return id;
    }

    public int stack(Cursor cursor, int[] frames) {
        int id = stackIds.incrementAndGet();
        int size = 11 + 4 * frames.length;
        Chunk chunk = cursor.chunk;
        synchronized (chunk) {
            ByteBuffer buffer = room(chunk, size);
            int at = chunk.position + 4;
            buffer.put(at, (byte) STACK);
            buffer.putInt(at + 1, id);
            buffer.putShort(at + 5, (short) frames.length);
            for (int i = 0; i < frames.length; i++) {
                buffer.putInt(at + 7 + 4 * i, frames[i]);
            }
            chunk.complete(size);
        }
        return id;
    }

    private static void putBytes(ByteBuffer buffer, int at, byte[] bytes, int length) {
        buffer.position(at);
        buffer.put(bytes, 0, length);
    }

    /** The buffer for a record of this size: a new chunk if the current one is full. */
    private ByteBuffer room(Chunk chunk, int size) {
        if (chunk.position + size > CHUNK) {
            chunk.buffer = fresh();
            chunk.position = MAGIC.length;
        }
        return chunk.buffer;
    }

    /** A new chunk at the end of the file, or scratch memory if the file can't grow. */
    private synchronized ByteBuffer fresh() {
        ByteBuffer chunk = null;
        try {
            chunk = failed ? null : grow();
        } catch (ClosedByInterruptException interrupted) {
            chunk = growElsewhere();
        } catch (IOException error) {
            failed = isLasting(error);
        }
        return (chunk == null ? ByteBuffer.allocate(CHUNK) : chunk).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** False if the process is out of descriptors: it may have one later. */
    private static boolean isLasting(IOException error) {
        return !String.valueOf(error.getMessage()).contains("Too many open files");
    }

    private ByteBuffer grow() throws IOException {
        if (spare == null || !spare.hasRemaining()) {
            spare = map();
        }
        spare.limit(spare.position() + CHUNK);
        ByteBuffer chunk = spare.slice();
        spare.position(spare.limit());
        spare.limit(spare.capacity());
        return chunk;
    }

    /** Map new chunks. They are written first, since a write to a mapped hole on a full disk would kill the target. */
    private ByteBuffer map() throws IOException {
        long offset = chunks * CHUNK;
        RandomAccessFile file = new RandomAccessFile(path, "rw");
        try {
            write(file, offset);
            ByteBuffer mapped = file.getChannel().map(FileChannel.MapMode.READ_WRITE, offset, GROWTH * CHUNK);
            chunks += GROWTH;
            return mapped;
        } finally {
            file.close();
        }
    }

    private static void write(RandomAccessFile file, long offset) throws IOException {
        try {
            file.seek(offset);
            for (int i = 0; i < GROWTH; i++) {
                file.write(EMPTY);
            }
        } catch (IOException error) {
            file.setLength(offset);
            throw error;
        }
    }

    /**
     * Let another thread map the chunk, since an interrupted thread can't. Its interrupt flag must not change (setting it
     * again may run code of the target), so it waits without sleeping.
     */
    private ByteBuffer growElsewhere() {
        Grower grower = new Grower(this);
        grower.start();
        long start = System.nanoTime();
        while (!grower.isDone && System.nanoTime() - start < Clock.ofTrueLength(GROW_NS_MAX)) {
            Thread.yield();
        }
        failed = !grower.isDone; // the thread may still map it: nobody else may use this part of the file
        return grower.give();
    }

    /** Maps one chunk, while the waiting thread holds the lock of the file. */
    private static final class Grower extends AgentThread {
        private final EventFile file;
        private ByteBuffer chunk;
        /** Set when its work is done. The thread must not be joined: a hook at its end may wait for the lock. */
        volatile boolean isDone;

        Grower(EventFile file) {
            super("undermine-grower");
            this.file = file;
        }

        @Override
        public void run() {
            try {
                chunk = file.grow();
            } catch (IOException error) {
                chunk = null; // scratch memory this time
            } finally {
                isDone = true;
            }
        }

        /** The chunk; null if it isn't ready or there is none. */
        ByteBuffer give() {
            return isDone ? chunk : null;
        }
    }
}
