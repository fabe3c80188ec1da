package undermine.agent.faults;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.util.Arrays;
import java.util.Locale;
import undermine.agent.operations.Call;
import undermine.agent.operations.DataChange;

/**
 * Changes the bytes of one operation, once.
 *
 * An occurrence counts only if there are bytes to change, so the step is counted and claimed when the bytes are known.
 */
final class Corruption implements DataChange {
    private static final int ALL = 0xFF;

    private final Faults faults;
    private final TriggerPart part;
    private final Call call;
    private final boolean isZero;
    private final double at;
    private boolean isDone;

    Corruption(Faults faults, TriggerPart part, Call call) {
        this.faults = faults;
        this.part = part;
        this.call = call;
        this.isZero = part.step.text("how", "flip").equals("zero");
        this.at = part.step.number("at", 0.5);
    }

    @Override
    public byte[] of(byte[] data) {
        return changed(data, at, "");
    }

    /** Opens the file again, since the program may have opened it for reading only. */
    @Override
    public void inFile(String path, long start, long size) {
        try (RandomAccessFile file = new RandomAccessFile(path, "rw")) {
            long count = Math.min(size, file.length() - start);
            if (count <= 0) {
                return;
            }
            long from = isZero ? start : start + place(count, at);
            byte[] data = new byte[isZero ? (int) Math.min(count, Integer.MAX_VALUE - 8) : 1];
            file.seek(from);
            file.readFully(data);
            byte[] instead = changed(data, 0, "at " + from + " of the file ");
            if (instead != null) {
                file.seek(from);
                file.write(instead);
            }
        } catch (IOException closed) {
            return; // not a file that the agent may change
        }
    }

    private byte[] changed(byte[] data, double where, String before) {
        byte[] instead = isZero ? new byte[data.length] : data.clone();
        String text = "bytes 0 to " + (data.length - 1) + " now 00";
        if (!isZero && data.length > 0) {
            int place = (int) place(data.length, where);
            instead[place] ^= (byte) ALL;
            text = String.format(Locale.ROOT, "byte %d was %02x, now %02x", place, data[place] & ALL, instead[place] & ALL);
        }
        if (isDone || Arrays.equals(data, instead) || !part.counts() || !faults.corrupts(part, call, before + text)) {
            return null;
        }
        isDone = true;
        return instead;
    }

    private static long place(long size, double at) {
        return Math.min(size - 1, Math.max(0, (long) (at * size)));
    }
}
