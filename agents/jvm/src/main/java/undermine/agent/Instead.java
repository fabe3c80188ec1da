package undermine.agent;

import java.io.FileDescriptor;
import java.io.IOException;
import java.io.RandomAccessFile;

/** Called by the target instead of native methods that count. See NativeCalls. */
public final class Instead {
    private Instead() {
    }

    public static void sync(FileDescriptor descriptor) throws IOException {
        FileHooks.sync(descriptor);
        try {
            descriptor.sync();
        } catch (Throwable error) {
            Core.<RuntimeException>raise(Hooks.failed(error));
        }
        Hooks.left();
    }

    public static void setLength(RandomAccessFile file, long length) throws IOException {
        FileHooks.truncate(file.getFD());
        try {
            file.setLength(length);
        } catch (Throwable error) {
            Core.<RuntimeException>raise(Hooks.failed(error));
        }
        Hooks.left();
    }
}
