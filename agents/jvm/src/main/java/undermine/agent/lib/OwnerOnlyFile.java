package undermine.agent.lib;

import java.io.IOException;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;

/** Files that nobody but their owner may read or write, whatever the target has made of its umask. */
public final class OwnerOnlyFile {
    private OwnerOnlyFile() {
    }

    /** A new, empty file; null if there is one of this name. */
    public static SeekableByteChannel create(Path path) throws IOException {
        try {
            return Files.newByteChannel(
                    path, EnumSet.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE), new Mode());
        } catch (FileAlreadyExistsException taken) {
            return null;
        }
    }

    /** Without the texts and regular expressions of PosixFilePermissions. */
    private static final class Mode implements FileAttribute<Set<PosixFilePermission>> {
        @Override
        public String name() {
            return "posix:permissions";
        }

        @Override
        public Set<PosixFilePermission> value() {
            return EnumSet.of(PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_WRITE);
        }
    }
}
