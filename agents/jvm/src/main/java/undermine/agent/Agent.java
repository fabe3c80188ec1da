package undermine.agent;

import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.Method;
import java.nio.channels.FileChannel;
import java.nio.channels.SeekableByteChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The agent of this process: what it is told and what it is made of. It never raises into the host what no plan asks for. */
public final class Agent {
    static final String NAME = "jvm/1";
    /** Unix sockets came with this version. */
    private static final int OLDEST = 16;
    private static final int TROUBLES_MAX = 5;
    private static final long LOOK_MS = 100;
    /** A thread that holds a lock which the greeting needs must not wait for it longer than this. */
    private static final long GREETING_MS_MAX = 2000;
    /** What this agent does not see, and why. */
    static final List<String> GAPS = Collections.unmodifiableList(Arrays.asList(
            "process: this family is not observed; nor are pipes within one process (java.nio.channels.Pipe, PipedInputStream)",
            "locks: conversions of a StampedLock (tryConvertToWriteLock and the like), and its views (asReadLock)",
            "hand-over: executors that are neither the JDK's nor Netty's, and what java.net.http.HttpClient's own threads hand on",
            "waits: who ends one at a Phaser without waiting there (arrive), or wakes a sleeper (parkNanos, parkUntil); what"
                    + " awaitTermination, close, invokeAll and invokeAny of a ForkJoinPool or of a pool with a thread for each call wait"
                    + " for; ForkJoinTask.invokeAll",
            "what is called by reflection, of locks, queues, waits and clocks",
            "mapped files: memory has no hook",
            "asynchronous channels: another implementation of sockets and files",
            "sendfile: what FileChannel.transferTo or Netty sends so is a send only, and no read of the file",
            "TLS by SSLEngine: its bytes are seen as they are on the wire",
            "Netty over io_uring: what it does is asked of the kernel by a queue",
            "Files.copy: it is one operation, the making of the copy",
            "files made by File.createTempFile: a native method"));

    static volatile Agent current;

    final Config config;
    final Paths paths;
    final Peers peers;
    final State state;
    final Table table;
    final Link link;
    final Lasting lasting;
    final Faults faults;
    final EventFile file;
    final Sites sites;
    final ThreadNames threadNames;
    final Variables variables;
    private final WovenClasses kept;
    private Weaver weaver;
    volatile boolean off;
    private volatile boolean hasNetty;
    private volatile Thread greeting;
    private int troubles;

    public static void premain(String arguments, Instrumentation instrumentation) {
        String path = System.getenv("UNDERMINE_AGENT");
        if (path == null || path.isEmpty()) {
            return;
        }
        ThreadState state = ThreadState.get();
        state.busy = true;
        Config config = null;
        try {
            config = new Config(read(path), Self.read());
            if (Native.version() < OLDEST) {
                throw new UnsupportedOperationException("this JVM is older than " + OLDEST + ": it has no Unix sockets");
            }
            Agent agent = new Agent(config, instrumentation);
            agent.begin(instrumentation);
        } catch (Throwable trouble) {
            if (current != null) {
                current.off = true;
            }
            if (config != null) {
                write(config, trouble);
            }
        } finally {
            state.busy = false;
        }
    }

    private Agent(Config config, Instrumentation instrumentation) throws IOException {
        this.config = config;
        Native.prepare(config.accelerator, instrumentation);
        threadNames = new ThreadNames();
        paths = new Paths(config.dir, config.paths);
        state = new State(map(config.state));
        table = new Table(state, config.node, config.role, config.steps);
        variables = new Variables(config.node, config.variables);
        if (!variables.isEmpty()) {
            table.lookFirst(variables);
        }
        Ops.find(table, config);
        link = new Link(config.socket, hello());
        lasting = new Lasting(state, link);
        file = newFile();
        faults = new Faults(this);
        sites = new Sites(config.packages, file);
        peers = new Peers(config, state);
        kept = new WovenClasses(config.woven);
    }

    /** From here on operations are recorded. */
    private void begin(Instrumentation instrumentation) throws Exception {
        file.process(cursor(ThreadState.get()), Json.write(introduction()));
        Named.install(this);
        open(instrumentation);
        weaver = new Weaver(this, kept, tables());
        prepare();
        prepareObserved();
        current = this;
        instrumentation.addTransformer(weaver, true);
        greet(); // not before: a class that it was loading just now would neither be woven nor be among the loaded ones
        instrumentation.retransformClasses(weaver.wanted(instrumentation.getAllLoadedClasses()));
        watch();
    }

    /** The methods of the JDK to weave: those of families that are only observed if somebody wants them. */
    private String[][][] tables() {
        List<String[][]> found = new ArrayList<String[][]>();
        found.add(JdkMethods.FILES);
        found.add(JdkMethods.NETWORK);
        found.add(JdkMethods.THREADS);
        if (config.observes("handover")) {
            found.add(JdkMethods.HANDOVER);
        }
        if (config.observes("sync")) {
            found.add(JdkMethods.SYNC);
        }
        return found.toArray(new String[0][][]);
    }

    /**
     * Says hello to the tool. If nothing has ever been in force there is nothing to learn from its answer, and the
     * program need not wait for it: opening the first socket takes the JDK a while.
     */
    private void greet() {
        final int generation = state.generation();
        if (generation != 0) {
            meet(generation);
            return;
        }
        greeting = new Thread("undermine-hello") {
            @Override
            public void run() {
                ThreadState.get().busy = true;
                try {
                    meet(generation);
                } catch (Throwable trouble) {
                    note(trouble);
                }
                greeting = null;
            }
        };
        greeting.setDaemon(true);
        greeting.start();
    }

    private void meet(int generation) {
        lasting.welcome(generation, link.welcome());
        if (!config.steps.isEmpty()) {
            faults.makeReady();
        }
    }

    /** Before anything is asked of the tool it has said whether it wants to hear of us. */
    void awaitGreeting() {
        Thread thread = greeting;
        if (thread == null || thread == Thread.currentThread()) {
            return;
        }
        boolean wasInterrupted = Thread.interrupted();
        try {
            thread.join(GREETING_MS_MAX);
        } catch (InterruptedException interrupt) {
            wasInterrupted = true;
        }
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Loads what hooks need, so that no hook is met while it is loaded. */
    private static void prepare() throws ClassNotFoundException {
        String[] names = {"Hooks", "FileHooks", "NetHooks", "ThreadHooks", "Named", "Core", "Results", "Undo", "Inside",
            "Instead", "Scope", "Frame", "Call", "Connection", "Connections"};
        for (String name : names) {
            Class.forName("undermine.agent." + name, true, null);
        }
    }

    /** The same for the families that are only observed. */
    private void prepareObserved() throws ClassNotFoundException {
        String[] names = {"Watch", "Things", "Items", "HandoverHooks", "MonitorHooks", "InsteadLocks", "InsteadWaits",
            "InsteadPools", "InsteadQueues", "InsteadTimes", "InsteadClocks", "InsteadPolls", "CallWeaver", "Guarded", "Held",
            "Crowd", "Bases"};
        for (int i = 0; config.observesCalls() && i < names.length; i++) {
            Class.forName("undermine.agent." + names[i], true, null);
        }
    }

    /** Loads what hooks in Netty need: programs without it do not wait for that. */
    void meetNetty() throws ClassNotFoundException {
        if (!hasNetty) {
            Class.forName("undermine.agent.NettySide", true, null);
            Class.forName("undermine.agent.NettyHooks", true, null);
            hasNetty = true;
        }
    }

    private void open(Instrumentation instrumentation) {
        try {
            Method open = Class.forName("undermine.agent.Modules", true, null)
                    .getDeclaredMethod("open", Instrumentation.class);
            open.setAccessible(true);
            open.invoke(null, instrumentation);
        } catch (Throwable trouble) {
            note(trouble);
        }
    }

    /** A thread of our own looks whether the tool asks for stacks. */
    private void watch() {
        Thread thread = new Thread("undermine-stacks") {
            @Override
            public void run() {
                look();
            }
        };
        thread.setDaemon(true);
        thread.start();
    }

    private void look() {
        ThreadState own = ThreadState.get();
        own.busy = true;
        int asked = state.stacksAsked();
        while (!off) {
            try {
                rest();
                int now = state.stacksAsked();
                if (now != asked) {
                    asked = now;
                    settle(cursor(own));
                    StackDump.write(config, threadNames, sites);
                }
                faults.look(cursor(own));
                if (hasNetty) {
                    NettyHooks.wake();
                }
                weaver.save();
            } catch (Throwable trouble) {
                note(trouble);
            }
        }
    }

    /** Records what threads have entered and not recorded: who does not go on may hold others up. */
    private void settle(Cursor cursor) {
        for (Cursor each : file.owners()) {
            if (each.state != null && each.state.held.isDeferring()) {
                each.state.held.settle(this, each.state, cursor, null);
            }
        }
    }

    /** A program may interrupt all threads of its group. */
    private static void rest() {
        try {
            Thread.sleep(LOOK_MS);
        } catch (InterruptedException interrupt) {
            return;
        }
    }

    // --- what it is told, and says

    @SuppressWarnings("unchecked")
    private static Map<String, Object> read(String path) throws IOException {
        File file = new File(path);
        byte[] bytes = new byte[(int) file.length()];
        FileInputStream stream = new FileInputStream(file);
        try {
            for (int at = 0; at < bytes.length;) {
                int count = stream.read(bytes, at, bytes.length - at);
                if (count < 0) {
                    break;
                }
                at += count;
            }
        } finally {
            stream.close();
        }
        return (Map<String, Object>) Json.read(new String(bytes, StandardCharsets.UTF_8));
    }

    private static java.nio.MappedByteBuffer map(String path) throws IOException {
        RandomAccessFile file = new RandomAccessFile(path, "rw");
        try {
            return file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, file.length());
        } finally {
            file.close();
        }
    }

    /** A program that replaced another one in this process finds the first name taken. */
    private EventFile newFile() throws IOException {
        for (int number = 1; number < 1000; number++) {
            String path = config.stem() + (number > 1 ? "-" + number : "") + ".events";
            if (!new File(path).exists()) {
                return new EventFile(path);
            }
        }
        throw new IOException("too many event files of one process");
    }

    private Map<String, Object> introduction() {
        Map<String, Object> said = new LinkedHashMap<String, Object>();
        said.put("version", (long) Config.VERSION);
        said.put("node", config.node);
        said.put("role", config.role);
        said.put("incarnation", (long) config.incarnation);
        said.put("pid", (long) config.pid);
        said.put("ppid", (long) config.parent);
        said.put("agent", NAME);
        said.put("runtime", "jvm " + System.getProperty("java.version"));
        said.put("capabilities", new ArrayList<String>(Faults.CAPABILITIES));
        said.put("gaps", new ArrayList<String>(GAPS));
        said.put("executable", System.getProperty("java.home") + "/bin/java");
        said.put("why_slow", Native.whyNot());
        return said;
    }

    private Map<String, Object> hello() {
        Map<String, Object> hello = new LinkedHashMap<String, Object>();
        hello.put("type", "hello");
        hello.putAll(introduction());
        hello.remove("role");
        hello.remove("ppid");
        return hello;
    }

    // --- for each operation

    Cursor cursor(ThreadState state) {
        if (state.cursor == null) {
            state.cursor = new Cursor(file);
            state.cursor.state = state;
        }
        return state.cursor;
    }

    /** Keeps the first few troubles of our own in a file beside the events: never in the host's way. */
    void note(Throwable trouble) {
        synchronized (this) {
            if (++troubles > TROUBLES_MAX) {
                return;
            }
        }
        write(config, trouble);
    }

    private static void write(Config config, Throwable trouble) {
        ThreadState state = ThreadState.get();
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            StackTraceElement[] frames = trouble.getStackTrace();
            String where = frames.length > 0 ? frames[0].toString() : "?";
            String message = String.valueOf(trouble.getMessage()).replace('\n', ' ');
            String line = trouble.getClass().getName() + ": " + message + " at " + where + "\n";
            String path = config.stem() + ".agent-error";
            SeekableByteChannel made = Private.create(java.nio.file.Paths.get(path));
            if (made != null) {
                made.close();
            }
            FileOutputStream stream = new FileOutputStream(path, true);
            try {
                stream.write(line.getBytes(StandardCharsets.UTF_8));
            } finally {
                stream.close();
            }
        } catch (Throwable nothing) {
            // fails open
        } finally {
            state.busy = wasBusy;
        }
    }
}
