package undermine.agent.instead;

import java.io.FileDescriptor;
import java.io.IOException;
import java.io.RandomAccessFile;
import undermine.agent.files.FileHooks;
import undermine.agent.hooks.Hooks;
import undermine.agent.lib.Unchecked;

/** Called by the target instead of native methods for files in older JDKs. See NativeCalls. */
public final class NativeFileCalls {
    private NativeFileCalls() {
    }

    public static void sync(FileDescriptor descriptor) throws IOException {
        Hooks.enter();
        try {
            FileHooks.sync(descriptor);
        } catch (Throwable error) {
            Unchecked.<RuntimeException>raise(Hooks.abandoned(error));
        }
        try {
            descriptor.sync();
        } catch (Throwable error) {
            Unchecked.<RuntimeException>raise(Hooks.failed(error));
        }
        Hooks.left();
    }

    public static void setLength(RandomAccessFile file, long length) throws IOException {
        FileDescriptor descriptor = file.getFD();
        Hooks.enter();
        try {
            FileHooks.truncate(descriptor);
        } catch (Throwable error) {
            Unchecked.<RuntimeException>raise(Hooks.abandoned(error));
        }
        try {
            file.setLength(length);
        } catch (Throwable error) {
            Unchecked.<RuntimeException>raise(Hooks.failed(error));
        }
        Hooks.left();
    }
}
