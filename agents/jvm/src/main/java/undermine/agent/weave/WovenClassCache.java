package undermine.agent.weave;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import undermine.agent.lib.Checksum;

/**
 * Classes that any process with this agent and this Java has woven before. Reading them is faster than weaving.
 *
 * The file is beside the agent, in a folder that only its user may write to. An entry is used only for exactly the class
 * file from which it was made. If the file can't be read or written, the classes are woven again.
 */
public final class WovenClassCache {
    private static final int MAGIC = 0x554D5732;
    private static final int SUM_BYTES = 8;
    private static final int CLASSES_MAX = 2000;
    private static final int BYTES_MAX = 16 << 20;
    private static final byte[] NOTHING = {};

    private final File file;
    /** By name, length and checksum of the original class file; empty: nothing to weave. */
    private final Map<String, byte[]> known = new HashMap<String, byte[]>();
    private boolean isChanged;

    /** Without a folder nothing is kept. */
    public WovenClassCache(String folder) {
        this(folder, "");
    }

    /** `purpose` becomes part of the file's name. */
    public WovenClassCache(String folder, String purpose) {
        file = folder.isEmpty() ? null : new File(folder, "woven-" + java() + purpose + ".bin");
        try {
            read();
        } catch (IOException | RuntimeException unreadable) {
            known.clear();
        }
    }

    private static String java() {
        String text = System.getProperty("java.vm.vendor") + " " + System.getProperty("java.vm.version");
        return Long.toHexString(Checksum.of(text.getBytes(StandardCharsets.UTF_8)));
    }

    static String key(String name, byte[] original) {
        return name + " " + original.length + " " + Checksum.of(original);
    }

    private void read() throws IOException {
        if (file == null || !file.isFile() || file.length() > BYTES_MAX) {
            return;
        }
        byte[] all = new byte[(int) file.length()];
        FileInputStream stream = new FileInputStream(file);
        try {
            new DataInputStream(stream).readFully(all);
        } finally {
            stream.close();
        }
        ByteBuffer data = ByteBuffer.wrap(all);
        if (data.getLong() != Checksum.of(all, SUM_BYTES) || data.getInt() != MAGIC) {
            return; // the JVM doesn't verify its own classes, so a damaged file would be dangerous
        }
        for (int left = data.getInt(); left > 0; left--) {
            String key = new String(part(data), StandardCharsets.UTF_8);
            known.put(key, part(data));
        }
    }

    private static byte[] part(ByteBuffer data) {
        byte[] found = new byte[data.getInt()];
        data.get(found);
        return found;
    }

    /** The woven class; empty if there is nothing to weave; null if unknown. */
    synchronized byte[] get(String key) {
        return known.get(key);
    }

    synchronized void put(String key, byte[] woven) {
        if (file != null && known.size() < CLASSES_MAX) {
            known.put(key, woven == null ? NOTHING : woven);
            isChanged = true;
        }
    }

    /**
     * Save newly woven classes, and those that other processes have saved. If several processes save at once, the last
     * one wins.
     */
    void save() {
        byte[] all;
        synchronized (this) {
            if (!isChanged) {
                return;
            }
            isChanged = false;
            readOthers();
            all = packed();
        }
        if (all.length <= BYTES_MAX) {
            write(all);
        }
    }

    private void readOthers() {
        try {
            read();
        } catch (IOException | RuntimeException unreadable) {
            return; // it is written again
        }
    }

    /** A folder that isn't writable is not an error. */
    private void write(byte[] all) {
        File part = null;
        try {
            part = File.createTempFile("woven", ".part", file.getParentFile());
            FileOutputStream stream = new FileOutputStream(part);
            try {
                stream.write(all);
            } finally {
                stream.close();
            }
            if (part.renameTo(file)) {
                part = null;
            }
        } catch (IOException notHere) {
            return;
        } finally {
            if (part != null) {
                part.delete();
            }
        }
    }

    private byte[] packed() {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        DataOutputStream data = new DataOutputStream(all);
        try {
            data.writeInt(MAGIC);
            data.writeInt(known.size());
            for (Map.Entry<String, byte[]> entry : known.entrySet()) {
                byte[] key = entry.getKey().getBytes(StandardCharsets.UTF_8);
                data.writeInt(key.length);
                data.write(key);
                data.writeInt(entry.getValue().length);
                data.write(entry.getValue());
            }
        } catch (IOException never) {
            throw new IllegalStateException(never);
        }
        return withSum(all.toByteArray());
    }

    private static byte[] withSum(byte[] bytes) {
        return ByteBuffer.allocate(SUM_BYTES + bytes.length).putLong(Checksum.of(bytes)).put(bytes).array();
    }
}
