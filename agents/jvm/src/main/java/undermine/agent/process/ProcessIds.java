package undermine.agent.process;

import java.io.FileInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** The ids of this process, its parent and its process group. */
public final class ProcessIds {
    public final int pid;
    public final int parent;
    final int group;

    /** Parses `/proc/self/stat`: `pid (name) state parent group …`. The name may contain any character. */
    public ProcessIds(String stat) {
        String[] words = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
        pid = Integer.parseInt(stat.substring(0, stat.indexOf(' ')));
        parent = Integer.parseInt(words[1]);
        group = Integer.parseInt(words[2]);
    }

    public static ProcessIds read() throws IOException {
        FileInputStream stream = new FileInputStream("/proc/self/stat");
        try {
            byte[] bytes = new byte[4096];
            return new ProcessIds(new String(bytes, 0, Math.max(stream.read(bytes), 0), StandardCharsets.ISO_8859_1));
        } finally {
            stream.close();
        }
    }
}
