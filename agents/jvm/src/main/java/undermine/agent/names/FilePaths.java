package undermine.agent.names;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import undermine.agent.operations.Subject;

/** Finds the subject of a path; null for files outside the configured folders. */
public final class FilePaths {
    private static final int CACHE_MAX = 20_000;
    private static final Subject NONE = new Subject("", "", false);
    private static final Subject OUTSIDE = new Subject("<outside>", "<outside>", false);

    private final List<Root> roots = new ArrayList<Root>();
    private final ConcurrentHashMap<String, Subject> known = new ConcurrentHashMap<String, Subject>();
    private final String workingDir = System.getProperty("user.dir", "/");

    public FilePaths(String dir, List<String> paths) {
        add(dir, true);
        for (String path : paths) {
            add(path, path.equals(dir));
        }
    }

    /** A configured folder, with a slash at its end. */
    private static final class Root {
        final String name;
        final boolean onDisk;

        Root(String name, boolean onDisk) {
            this.name = name;
            this.onDisk = onDisk;
        }
    }

    private void add(String folder, boolean onDisk) {
        if (folder.isEmpty()) {
            return;
        }
        addRoot(absolute(folder), onDisk);
        try {
            addRoot(new File(folder).getCanonicalPath(), onDisk);
        } catch (IOException error) {
            // use the name as given
        }
    }

    /** The longest comes first, so that a path is relative to the innermost folder. */
    private void addRoot(String path, boolean onDisk) {
        String name = path.equals("/") ? path : path + "/";
        int at = 0;
        for (Root root : roots) {
            if (root.name.equals(name)) {
                return;
            }
            at += root.name.length() >= name.length() ? 1 : 0;
        }
        roots.add(at, new Root(name, onDisk));
    }

    /** The subject of a path, or null. */
    public Subject subject(String path) {
        if (path == null) {
            return null;
        }
        Subject found = known.get(path);
        if (found == null) {
            found = find(absolute(path));
            if (known.size() >= CACHE_MAX) {
                known.clear();
            }
            known.put(path, found);
        }
        return found == NONE ? null : found;
    }

    private Subject find(String plain) {
        for (Root root : roots) {
            if ((plain + "/").startsWith(root.name)) {
                String rest = plain.length() > root.name.length() ? plain.substring(root.name.length()) : ".";
                return new Subject(Masks.mask(rest), plain, root.onDisk);
            }
        }
        return NONE;
    }

    /** The absolute path, without empty parts, `.` and `..`. */
    private String absolute(String path) {
        String whole = path.startsWith("/") ? path : workingDir + "/" + path;
        StringBuilder found = new StringBuilder(whole.length());
        int at = 0;
        while (at < whole.length()) {
            int end = whole.indexOf('/', at);
            end = end < 0 ? whole.length() : end;
            addPart(found, whole.substring(at, end));
            at = end + 1;
        }
        return found.length() == 0 ? "/" : found.toString();
    }

    private static void addPart(StringBuilder found, String part) {
        if (part.equals("..")) {
            found.setLength(Math.max(found.lastIndexOf("/"), 0));
        } else if (!part.isEmpty() && !part.equals(".")) {
            found.append('/').append(part);
        }
    }

    /** The subject of a rename; null if both paths are outside the configured folders. */
    public static Subject pair(Subject a, Subject b) {
        if (a == null && b == null) {
            return null;
        }
        Subject from = a == null ? OUTSIDE : a;
        Subject to = b == null ? OUTSIDE : b;
        return new Subject(
            from.target + " -> " + to.target, from.resource + " -> " + to.resource, from.onDisk || to.onDisk);
    }
}
