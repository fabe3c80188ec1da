package undermine.agent.hooks;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import undermine.agent.files.FileHooks;
import undermine.agent.net.JdkSockets;

/** Closes a file or connection that was opened before an error was injected. */
public final class Undo {
    private Undo() {
    }

    static void of(String op, Object handle) throws IOException {
        boolean isOpening = op.equals("file.open") || op.equals("file.create") || op.equals("net.accept")
                || op.equals("net.connect");
        if (!isOpening) {
            return;
        }
        if (handle instanceof FileDescriptor) {
            FileHooks.FILES.remove(handle);
            new FileOutputStream((FileDescriptor) handle).close();
        } else {
            JdkSockets.closeAny(handle);
        }
    }
}
