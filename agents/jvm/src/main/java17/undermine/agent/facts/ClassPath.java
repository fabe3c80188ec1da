package undermine.agent.facts;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.jar.JarFile;
import java.util.jar.Manifest;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/** The class files of a class path: of jars, folders, and `FOLDER/*`. The first file of a name counts, as in a JVM. */
final class ClassPath implements AutoCloseable {
    private static final String SUFFIX = ".class";
    private static final String NESTED_VERSIONS = "META-INF/";
    private static final int FILE_BYTES_MAX = 16 << 20;
    private static final int FILES_MAX = 200_000;
    private static final int PARTS_MAX = 2_000;

    /** Opens a class file. */
    private interface Source {
        InputStream open() throws IOException;
    }

    private final Map<String, Source> byName = new HashMap<>();
    private final List<ZipFile> jars = new ArrayList<>();
    private final List<Path> seen = new ArrayList<>();
    /** Jars and folders that manifests name, also those that don't exist. */
    final Set<String> named = new LinkedHashSet<>();
    /** Files that can't be read, each with the reason. */
    final Map<String, String> troubles = new TreeMap<>();

    ClassPath(List<String> parts) {
        for (String part : parts) {
            add(part);
        }
    }

    private void add(String part) {
        if (part.endsWith(File.separator + "*") || part.equals("*")) {
            File[] found = new File(part.equals("*") ? "." : part.substring(0, part.length() - 2)).listFiles();
            List<String> jarNames = new ArrayList<>();
            for (File file : found == null ? new File[0] : found) {
                if (file.getName().toLowerCase().endsWith(".jar")) {
                    jarNames.add(file.getPath());
                }
            }
            Collections.sort(jarNames);
            jarNames.forEach(this::add);
            return;
        }
        Path path = Path.of(part);
        if (seen.contains(path) || seen.size() >= PARTS_MAX) {
            return;
        }
        seen.add(path);
        try {
            if (Files.isDirectory(path)) {
                addFolder(path);
            } else if (Files.isRegularFile(path)) {
                addJar(path);
            }
        } catch (IOException | RuntimeException error) {
            troubles.put(part, reason(error));
        }
    }

    static String reason(Throwable error) {
        String said = String.valueOf(error.getMessage());
        return error.getClass().getSimpleName() + ": " + said.substring(0, Math.min(said.length(), 200));
    }

    private void addFolder(Path folder) throws IOException {
        try (Stream<Path> all = Files.walk(folder)) {
            all.filter(path -> path.toString().endsWith(SUFFIX) && Files.isRegularFile(path)).sorted().limit(FILES_MAX).forEach(
                    path -> put(folder.relativize(path).toString().replace(File.separatorChar, '/'), () -> Files.newInputStream(path)));
        }
    }

    private void addJar(Path path) throws IOException {
        ZipFile jar = new ZipFile(path.toFile());
        jars.add(jar);
        jar.stream().filter(entry -> entry.getName().endsWith(SUFFIX) && !entry.getName().startsWith(NESTED_VERSIONS))
                .limit(FILES_MAX).forEach(entry -> put(entry.getName(), () -> jar.getInputStream(entry)));
        ZipEntry manifest = jar.getEntry(JarFile.MANIFEST_NAME);
        if (manifest != null) {
            try (InputStream in = jar.getInputStream(manifest)) {
                String more = new Manifest(in).getMainAttributes().getValue("Class-Path");
                for (String each : more == null ? new String[0] : more.trim().split("\\s+")) {
                    addRelative(path, each);
                }
            }
        }
    }

    /** Add what a jar's manifest names, if it is a path beside the jar. */
    private void addRelative(Path jar, String part) {
        if (!part.isEmpty() && !part.contains(":")) {
            String found = jar.toAbsolutePath().resolveSibling(part).normalize().toString();
            if (named.size() < PARTS_MAX && named.add(found)) {
                add(found);
            }
        }
    }

    private void put(String file, Source source) {
        if (byName.size() < FILES_MAX) {
            byName.putIfAbsent(file.substring(0, file.length() - SUFFIX.length()), source);
        }
    }

    /** The names of all classes, with slashes, in order. */
    List<String> names() {
        List<String> found = new ArrayList<>(byName.keySet());
        Collections.sort(found);
        return found;
    }

    /** A class file of the class path, else of the JDK that runs this; null if there is none. */
    byte[] bytes(String name) {
        Source source = byName.get(name);
        try (InputStream in = source != null ? source.open() : ofJdk(name)) {
            if (in == null) {
                return null;
            }
            byte[] found = in.readNBytes(FILE_BYTES_MAX + 1);
            if (found.length > FILE_BYTES_MAX) {
                troubles.put(name, "the class file is larger than " + FILE_BYTES_MAX + " bytes");
                return null;
            }
            return found;
        } catch (IOException | RuntimeException error) {
            troubles.put(name, reason(error));
            return null;
        }
    }

    /** Only the JDK's own loader is asked: the class path of this process is the agent's. */
    private static InputStream ofJdk(String name) {
        return name.startsWith("[") ? null : ClassLoader.getPlatformClassLoader().getResourceAsStream(name + SUFFIX);
    }

    @Override
    public void close() {
        for (ZipFile jar : jars) {
            try {
                jar.close();
            } catch (IOException ignored) { // it was only read
                continue;
            }
        }
    }
}
