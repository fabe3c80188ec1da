package undermine.agent.record;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import undermine.agent.faults.DecisionTable;
import undermine.agent.faults.Faults;
import undermine.agent.faults.LastingFaults;
import undermine.agent.faults.Sockets;
import undermine.agent.lib.Json;
import undermine.agent.lib.JsonValues;
import undermine.agent.lib.Troubles;
import undermine.agent.names.FilePaths;
import undermine.agent.names.Peers;
import undermine.agent.names.ThreadNames;
import undermine.agent.process.Death;
import undermine.agent.stacks.Sites;
import undermine.agent.variables.Variables;
import undermine.agent.wire.Config;
import undermine.agent.wire.Cursor;
import undermine.agent.wire.EventFile;
import undermine.agent.wire.SharedState;
import undermine.agent.wire.ToolLink;

/** The parts of the agent that runs in this process. Hooks find them here. */
public final class AgentCore implements Troubles {
    private static final int EVENT_FILES_MAX = 1000;

    /** Null until operations are recorded. */
    public static volatile AgentCore current;

    public final Config config;
    public final FilePaths paths;
    public final Peers peers;
    public final SharedState state;
    public final DecisionTable table;
    public final LastingFaults lasting;
    public final Faults faults;
    public final EventFile file;
    public final Sites sites;
    public final ThreadNames threadNames;
    public final Variables variables;
    public final Greeting greeting;
    /** True once the agent has failed to start: from then on nothing is recorded. */
    public volatile boolean off;
    private final TroubleFile troubles;
    /** The record at the beginning of the event file. */
    private final Map<String, Object> introduction;

    public AgentCore(Config config, Map<String, Object> introduction, Map<String, Object> hello, Sockets sockets)
            throws IOException {
        this.config = config;
        this.introduction = introduction;
        troubles = new TroubleFile(config);
        threadNames = new ThreadNames();
        paths = new FilePaths(config.dir, config.paths);
        state = new SharedState(map(config.state));
        table = new DecisionTable(state, config);
        Ops.find(table, config);
        ToolLink link = new ToolLink(config.socket, hello);
        lasting = new LastingFaults(state, link, sockets);
        file = newFile();
        faults = new Faults(table, link, lasting, file, new Death(config.cgroup, this), sockets);
        sites = new Sites(config.packages, file);
        variables = new Variables(config.node, config.variables, config.addresses);
        if (config.survey) {
            variables.survey(sites);
        }
        if (!variables.isEmpty()) {
            table.readVariables();
        }
        peers = new Peers(config, state);
        greeting = new Greeting(this, link);
    }

    private static MappedByteBuffer map(String path) throws IOException {
        RandomAccessFile file = new RandomAccessFile(path, "rw");
        try {
            return file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, file.length());
        } finally {
            file.close();
        }
    }

    /** If this process ran another program before (exec), that program's event file has the first name. */
    private EventFile newFile() throws IOException {
        for (int number = 1; number < EVENT_FILES_MAX; number++) {
            String path = config.stem() + (number > 1 ? "-" + number : "") + ".events";
            if (!new File(path).exists()) {
                return new EventFile(path);
            }
        }
        throw new IOException("too many event files of one process");
    }

    /** The cursor of the current thread, whose state this is. */
    public Cursor cursor(ThreadState state) {
        if (state.cursor == null) {
            state.cursor = new Cursor(file);
            state.cursor.unwritten = state;
        }
        return state.cursor;
    }

    /** Write the record at the beginning of the event file again, with one more gap. The caller has set `busy`. */
    public void addGap(Cursor cursor, String gap) {
        List<Object> gaps = new ArrayList<Object>(JsonValues.list(introduction.get("gaps")));
        gaps.add(gap);
        Map<String, Object> changed = new LinkedHashMap<String, Object>(introduction);
        changed.put("gaps", gaps);
        file.process(cursor, Json.write(changed));
    }

    @Override
    public void note(Throwable trouble) {
        troubles.note(trouble);
    }
}
