package undermine.agent;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SeekableByteChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import undermine.agent.lib.Json;
import undermine.agent.lib.OwnerOnlyFile;
import undermine.agent.names.ThreadNames;
import undermine.agent.process.Clock;
import undermine.agent.stacks.Locs;
import undermine.agent.stacks.Sites;
import undermine.agent.wire.Config;

/** Writes the stacks of all threads of this process when the tool asks for them. Calls no code of the target. */
final class StackDump {
    private static final int THREADS_MAX = 200;
    private static final int FRAMES_MAX = 60;
    private static final int TEXT_MAX = 300;
    private static final int BYTES_MAX = 1 << 20;
    private static final int ROOM = 1000;
    private static final String OWN_THREADS = "undermine-";

    private final ThreadNames names;
    private final Sites sites;
    private int leftOut;

    private StackDump(ThreadNames names, Sites sites) {
        this.names = names;
        this.sites = sites;
    }

    /** Write the stacks file of this process: under a temporary name first, then renamed. */
    static void write(Config config, ThreadNames names, Sites sites) throws IOException {
        Map<String, Object> who = new LinkedHashMap<String, Object>();
        who.put("node", config.node);
        who.put("incarnation", config.incarnation);
        who.put("pid", config.pid);
        long now = Clock.trueTime(Clock.now());
        who.put("t_ns", now);
        Path path = java.nio.file.Paths.get(config.stem() + ".stacks");
        save(path, java.nio.file.Paths.get(path + "." + now), new StackDump(names, sites).text(who));
    }

    private static void save(Path path, Path temporary, String text) throws IOException {
        ByteBuffer data = ByteBuffer.wrap(text.getBytes(StandardCharsets.US_ASCII));
        SeekableByteChannel channel = OwnerOnlyFile.create(temporary);
        if (channel == null) {
            throw new IOException(temporary + " exists");
        }
        try {
            try {
                while (data.hasRemaining()) {
                    channel.write(data);
                }
            } finally {
                channel.close();
            }
            Files.move(temporary, path, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException error) {
            Files.deleteIfExists(temporary);
            throw error;
        }
    }

    /** The JSON text, with as many threads as fit and the number of those left out. */
    String text(Map<String, Object> who) {
        StringBuilder doing = new StringBuilder();
        int count = 0;
        for (Map.Entry<Thread, StackTraceElement[]> entry : Thread.getAllStackTraces().entrySet()) {
            if (entry.getKey().getName().startsWith(OWN_THREADS)) {
                continue;
            }
            String one = count < THREADS_MAX ? Json.write(describe(entry.getKey(), entry.getValue())) : null;
            if (one == null || doing.length() + one.length() > BYTES_MAX - ROOM) {
                leftOut++;
            } else {
                doing.append(count++ == 0 ? "" : ",").append(one);
            }
        }
        who.put("left_out", leftOut);
        String head = Json.write(who);
        return head.substring(0, head.length() - 1) + ",\"doing\":[" + doing + "]}";
    }

    private Map<String, Object> describe(Thread thread, StackTraceElement[] trace) {
        List<String> stack = new ArrayList<String>();
        List<String> own = new ArrayList<String>();
        for (StackTraceElement element : trace) {
            String className = element.getClassName();
            if (Sites.isOfAgent(className) || stack.size() == FRAMES_MAX) {
                continue;
            }
            String place = cut(Locs.of(className, element.getMethodName(), "", null));
            stack.add(place + ":" + Math.max(element.getLineNumber(), 0));
            if (sites.isOfTarget(className)) {
                own.add(place);
            }
        }
        Map<String, Object> found = new LinkedHashMap<String, Object>();
        String called = names.get(thread);
        found.put("kind", "thread");
        found.put("name", cut(called == null ? thread.getName() : called));
        found.put("stack", stack);
        found.put("own", own);
        found.put("waits", "");
        return found;
    }

    private static String cut(String text) {
        return text.length() > TEXT_MAX ? text.substring(0, TEXT_MAX) : text;
    }
}
