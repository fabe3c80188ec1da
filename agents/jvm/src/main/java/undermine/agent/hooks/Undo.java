package undermine.agent.hooks;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import undermine.agent.files.FileHooks;
import undermine.agent.net.JdkSockets;

/** Closes what was opened, accepted or connected before it was answered with an error. */
public final class Undo {
    private Undo() {
    }

    static void of(String op, Object thing) throws IOException {
        boolean isOpening = op.equals("file.open") || op.equals("file.create") || op.equals("net.accept")
                || op.equals("net.connect");
        if (!isOpening) {
            return;
        }
        if (thing instanceof FileDescriptor) {
            FileHooks.FILES.remove(thing);
            new FileOutputStream((FileDescriptor) thing).close();
        } else {
            JdkSockets.closeAny(thing);
        }
    }
}
