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

/** Creates files that only their owner may read or write, whatever the target's umask is. */
public final class OwnerOnlyFile {
    private OwnerOnlyFile() {
    }

    /** Create an empty file; null if one with this name exists. */
    public static SeekableByteChannel create(Path path) throws IOException {
        try {
            return Files.newByteChannel(
                    path, EnumSet.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE), new Mode());
        } catch (FileAlreadyExistsException taken) {
            return null;
        }
    }

    /** Avoids PosixFilePermissions, which would load regular expressions. */
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
