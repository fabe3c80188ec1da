package undermine.agent;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.JarURLConnection;
import java.net.URL;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.jar.JarEntry;
import undermine.agent.classfiles.ClassBytes;
import undermine.agent.lib.Json;
import undermine.agent.stacks.Sites;
import undermine.agent.weave.JdkMethods;
import undermine.agent.weave.Weaver;
import undermine.agent.weave.WovenClassCache;
import undermine.agent.wire.Cursor;
import undermine.agent.wire.EventFile;
import undermine.agent.wire.ToolLink;

/**
 * The main class of a run that creates an archive of classes (AppCDS): it loads the agent's classes, then runs the
 * program.
 *
 * An archive can't be created while an agent is loaded, so the jar is only on the boot class path then. With the archive,
 * a JVM with the agent starts nearly as fast as one without.
 *
 *     java -Xbootclasspath/a:undermine-agent.jar -XX:ArchiveClassesAtExit=FILE undermine.agent.Rehearsal MAIN [ARGUMENT ...]
 */
public final class Rehearsal {
    private Rehearsal() {
    }

    public static void main(String[] arguments) throws Exception {
        try {
            loadAll();
            weave();
            useFilesAndSockets();
        } catch (Throwable trouble) {
            System.err.println("the archive has not all of the agent's classes: " + trouble);
        }
        Method main = Class.forName(arguments[0], true, ClassLoader.getSystemClassLoader())
                .getMethod("main", String[].class);
        main.setAccessible(true);
        main.invoke(null, (Object) Arrays.copyOfRange(arguments, 1, arguments.length));
    }

    private static void loadAll() throws IOException {
        URL own = ClassLoader.getSystemResource("undermine/agent/Rehearsal.class");
        Enumeration<JarEntry> entries = ((JarURLConnection) own.openConnection()).getJarFile().entries();
        while (entries.hasMoreElements()) {
            String name = entries.nextElement().getName();
            if (name.startsWith("undermine/agent/") && name.endsWith(".class")) {
                load(name.substring(0, name.length() - ".class".length()).replace('/', '.'));
            }
        }
    }

    /** Some classes are for newer versions of Java. */
    private static void load(String name) {
        try {
            Class.forName(name, false, null);
        } catch (ClassNotFoundException | LinkageError other) {
            return;
        }
    }

    private static void weave() {
        List<String[][]> tables = Arrays.asList(JdkMethods.FILES, JdkMethods.NETWORK, JdkMethods.THREADS);
        Weaver weaver = new Weaver(null, new WovenClassCache(""), tables.toArray(new String[0][][]));
        for (String[][] table : tables) {
            for (String[] row : table) {
                byte[] bytes = ClassBytes.of(ClassLoader.getSystemClassLoader(), row[0]);
                if (bytes != null) {
                    weaver.transform(null, row[0], null, null, bytes);
                }
            }
        }
    }

    private static void useFilesAndSockets() throws IOException {
        File file = File.createTempFile("undermine", ".events");
        File missing = new File(file.getPath() + ".none");
        file.delete();
        try {
            EventFile events = new EventFile(file.getPath());
            Cursor cursor = new Cursor(events);
            events.process(cursor, Json.write(Collections.emptyMap()));
            new Sites(Collections.<String>emptyList(), events).here(cursor);
            new ToolLink(missing.getPath(), Collections.<String, Object>emptyMap()).welcome();
        } finally {
            file.delete();
        }
    }
}
