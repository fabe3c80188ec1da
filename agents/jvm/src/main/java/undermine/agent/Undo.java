package undermine.agent;

import java.io.Closeable;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.net.SocketImpl;

/** Closes what was opened, accepted or connected before it was answered with an error. */
final class Undo {
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
        } else if (thing instanceof SocketImpl) {
            Inside.close((SocketImpl) thing);
        } else if (thing instanceof NettySide.Accepted) {
            ((NettySide.Accepted) thing).close();
        } else if (thing instanceof Closeable) {
            ((Closeable) thing).close();
        }
    }
}
