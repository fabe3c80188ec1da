package undermine.agent.record;

import java.io.FileOutputStream;
import java.nio.channels.SeekableByteChannel;
import java.nio.charset.StandardCharsets;
import undermine.agent.lib.OwnerOnlyFile;
import undermine.agent.lib.Troubles;
import undermine.agent.wire.Config;

/** Keeps the agent's own first few failures in a file beside the events. It never raises anything into the target. */
public final class TroubleFile implements Troubles {
    private static final int TROUBLES_MAX = 5;

    private final Config config;
    private int troubles;

    TroubleFile(Config config) {
        this.config = config;
    }

    @Override
    public void note(Throwable trouble) {
        synchronized (this) {
            if (++troubles > TROUBLES_MAX) {
                return;
            }
        }
        write(config, trouble);
    }

    /** Write one line, even if there are many already. */
    public static void write(Config config, Throwable trouble) {
        ThreadState state = ThreadState.get();
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            StackTraceElement[] frames = trouble.getStackTrace();
            String where = frames.length > 0 ? frames[0].toString() : "?";
            String message = String.valueOf(trouble.getMessage()).replace('\n', ' ');
            String line = trouble.getClass().getName() + ": " + message + " at " + where + "\n";
            String path = config.stem() + ".agent-error";
            SeekableByteChannel made = OwnerOnlyFile.create(java.nio.file.Paths.get(path));
            if (made != null) {
                made.close();
            }
            FileOutputStream stream = new FileOutputStream(path, true);
            try {
                stream.write(line.getBytes(StandardCharsets.UTF_8));
            } finally {
                stream.close();
            }
        } catch (Throwable unwritable) {
            return; // fails open
        } finally {
            state.busy = wasBusy;
        }
    }
}
