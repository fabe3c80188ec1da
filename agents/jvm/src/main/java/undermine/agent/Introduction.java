package undermine.agent;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import undermine.agent.faults.Faults;
import undermine.agent.process.NativeHelper;
import undermine.agent.wire.Config;

/** The agent's description of itself: in its event file, and in its hello to the tool. */
final class Introduction {
    static final String NAME = "jvm/1";
    /** The operations that this agent doesn't observe, and why. The tool shows these lines to users. */
    static final List<String> GAPS = Collections.unmodifiableList(Arrays.asList(
            "processes: starts and waits of child processes; pipes inside one process (java.nio.channels.Pipe, PipedInputStream)",
            "locks: conversions of a StampedLock (such as tryConvertToWriteLock) and its views (asReadLock)",
            "hand-over: executors of libraries other than Netty, and the threads inside java.net.http.HttpClient",
            "waits: Phaser.arrive; the thread that wakes a sleeper (parkNanos, parkUntil); the tasks that awaitTermination,"
                    + " close, invokeAll and invokeAny wait for in a ForkJoinPool or a pool with one thread per task;"
                    + " ForkJoinTask.invokeAll",
            "reflection: locks, queues, waits and clocks that are called by reflection",
            "heap: accesses by reflection, VarHandle, field updaters, method references and libraries, and what a thread does"
                    + " before its first other operation",
            "contents: tokens of bytes in Netty's native transport, FileChannel.transferTo and transferFrom",
            "mapped files: the JVM has no hook for memory",
            "asynchronous channels: they use another implementation of sockets and files",
            "sendfile: a file sent by FileChannel.transferTo or Netty is recorded as a send, without a read of the file",
            "TLS by SSLEngine: its bytes are recorded encrypted, as they are on the wire",
            "Netty over io_uring: its operations go to the kernel through a queue",
            "Files.copy: it is recorded as one operation, the creation of the copy",
            "File.createTempFile: it creates the file in a native method"));

    private Introduction() {
    }

    /** The record at the beginning of the event file. */
    static Map<String, Object> of(Config config) {
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
        said.put("why_slow", NativeHelper.whyNot());
        said.put("learns_contents", config.learnsContents());
        return said;
    }

    /** The first message of each conversation with the tool. */
    static Map<String, Object> hello(Config config) {
        Map<String, Object> hello = new LinkedHashMap<String, Object>();
        hello.put("type", "hello");
        hello.put("token", config.token);
        hello.putAll(of(config));
        hello.remove("role");
        hello.remove("ppid");
        hello.remove("learns_contents");
        return hello;
    }
}
