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
    /** What this agent doesn't observe, and why. The tool shows these lines to users. */
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
        return said;
    }

    /** The first message of each conversation with the tool. */
    static Map<String, Object> hello(Config config) {
        Map<String, Object> hello = new LinkedHashMap<String, Object>();
        hello.put("type", "hello");
        hello.putAll(of(config));
        hello.remove("role");
        hello.remove("ppid");
        return hello;
    }
}
