package undermine.agent;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import undermine.agent.hooks.LogicalOperations;
import undermine.agent.lib.Json;
import undermine.agent.net.Endpoint;
import undermine.agent.process.Clock;
import undermine.agent.process.NativeHelper;
import undermine.agent.process.ProcessIds;
import undermine.agent.record.AgentCore;
import undermine.agent.record.ThreadState;
import undermine.agent.record.TroubleFile;
import undermine.agent.weave.JdkMethods;
import undermine.agent.weave.Weaver;
import undermine.agent.weave.WovenClassCache;
import undermine.agent.wire.Config;

/** Starts the agent in a JVM that was started with `-javaagent`. If that fails, the target runs as without an agent. */
public final class Agent {
    /** The first version with Unix sockets. */
    private static final int OLDEST = 16;

    private Agent() {
    }

    public static void premain(String arguments, Instrumentation instrumentation) {
        String path = System.getenv("UNDERMINE_AGENT");
        if (path == null || path.isEmpty()) {
            return;
        }
        ThreadState state = ThreadState.get();
        state.busy = true;
        Config config = null;
        try {
            config = new Config(read(path), ProcessIds.read());
            if (NativeHelper.version() < OLDEST) {
                throw new UnsupportedOperationException("this JVM is older than " + OLDEST + ": it has no Unix sockets");
            }
            begin(config, instrumentation);
        } catch (Throwable trouble) {
            if (AgentCore.current != null) {
                AgentCore.current.off = true;
            }
            if (config != null) {
                TroubleFile.write(config, trouble);
            }
        } finally {
            state.busy = false;
        }
    }

    /** Operations are recorded from the assignment to `AgentCore.current` on. */
    private static void begin(Config config, Instrumentation instrumentation) throws Exception {
        NativeHelper.prepare(config.accelerator, instrumentation);
        setClock(config);
        Map<String, Object> introduction = Introduction.of(config);
        AgentCore agent = new AgentCore(config, introduction, Introduction.hello(config), new Endpoint());
        WovenClassCache kept = new WovenClassCache(config.woven);
        agent.file.process(agent.cursor(ThreadState.get()), Json.write(introduction));
        LogicalOperations.install(agent);
        open(agent, instrumentation);
        Weaver weaver = new Weaver(agent, kept, tables(config));
        Preloading.hooks();
        if (config.observesCalls()) {
            Preloading.observed();
        }
        if (config.heap) {
            Preloading.heap();
        }
        if (config.content) {
            Preloading.content();
        }
        AgentCore.current = agent;
        instrumentation.addTransformer(weaver, true);
        // after the transformer: a class that the greeting loads before would never be woven
        agent.greeting.begin();
        instrumentation.retransformClasses(weaver.wanted(instrumentation.getAllLoadedClasses()));
        new BackgroundThread(agent, weaver).start();
    }

    private static void setClock(Config config) {
        try {
            Clock.begin(config.speed, config.originNs);
        } catch (IOException trouble) {
            TroubleFile.write(config, trouble);
        }
    }

    /** The JDK's methods to weave. Families that are only observed are woven if the configuration asks for them. */
    private static String[][][] tables(Config config) {
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

    /** Open packages of the JDK to the agent. The class is loaded by name, since Java 8 can't load it. */
    private static void open(AgentCore agent, Instrumentation instrumentation) {
        try {
            Method open = Class.forName("undermine.agent.process.OpenedPackages", true, null)
                    .getDeclaredMethod("open", Instrumentation.class);
            open.setAccessible(true);
            open.invoke(null, instrumentation);
        } catch (Throwable trouble) {
            agent.note(trouble);
        }
    }

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
}
