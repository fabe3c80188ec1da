package undermine.agent;

import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import undermine.agent.faults.DecisionTable;
import undermine.agent.faults.Sockets;
import undermine.agent.lib.Json;
import undermine.agent.lib.JsonValues;
import undermine.agent.operations.Call;
import undermine.agent.operations.Subject;
import undermine.agent.process.ProcessIds;
import undermine.agent.stacks.Site;
import undermine.agent.stacks.Stack;
import undermine.agent.wire.Config;
import undermine.agent.wire.Cursor;
import undermine.agent.wire.EventFile;
import undermine.agent.wire.SharedState;
import undermine.agent.wire.ToolLink;

/** Test data: a shared state, decision tables, calls, a fake tool, and a reader of receipts. */
public final class Given {
    public static final int VARIABLES = 1024;
    public static final int PORTS = 4096;
    public static final int FIRSTS = 2048;
    public static final int PID = 42;

    private Given() {
    }

    /** A shared state with room for some steps, variables and all ports. */
    public static ByteBuffer shared() {
        ByteBuffer view = ByteBuffer.allocate(PORTS + 3 * 65536).order(ByteOrder.LITTLE_ENDIAN);
        view.put("UMS2".getBytes(StandardCharsets.US_ASCII)).putInt(16, PORTS).putInt(20, VARIABLES).putInt(24, FIRSTS);
        return view;
    }

    public static void step(ByteBuffer view, int step, int state) {
        view.put(64 + 16 * step, (byte) state);
    }

    public static void heal(ByteBuffer view) {
        view.put(12, (byte) 1);
    }

    public static DecisionTable table(ByteBuffer view, String... steps) {
        List<Object> found = new ArrayList<>();
        for (String step : steps) {
            found.add(json(step));
        }
        Map<String, Object> config = json("{'version': " + Config.VERSION
                + ", 'node': 's1', 'role': 'store', 'nodes': ['s3', 's1', 's2']}");
        config.put("steps", found);
        return new DecisionTable(new SharedState(view), new Config(config, new ProcessIds(PID + " (java) S 1 1")));
    }

    /** Sockets that can only be reset together. */
    public static Sockets sockets(Consumer<List<?>> resetAll) {
        return (Sockets) Proxy.newProxyInstance(Given.class.getClassLoader(), new Class<?>[] {Sockets.class},
                (self, method, arguments) -> {
                    if (!method.getName().equals("resetAll")) {
                        throw new UnsupportedOperationException(method.getName());
                    }
                    resetAll.accept((List<?>) arguments[0]);
                    return null;
                });
    }

    /** JSON with single quotes. */
    public static Map<String, Object> json(String text) {
        return JsonValues.map(Json.read(text.replace('\'', '"')));
    }

    public static Stack stack(String... locs) {
        Site[] frames = new Site[locs.length];
        for (int i = 0; i < locs.length; i++) {
            frames[i] = new Site(i + 1, locs[i]);
        }
        return new Stack(1, frames, 0);
    }

    public static Call call(DecisionTable table, String op, String target) {
        return call(table, op, target, "app:Main.run#1", null);
    }

    public static Call call(DecisionTable table, String op, String target, String loc, Cursor cursor) {
        boolean isFile = op.startsWith("file.");
        Subject subject = new Subject(target, isFile ? "/data/" + target : target, isFile);
        return new Call(table.operation(op), subject, stack(loc), 7, cursor);
    }

    /** True if the call makes a trigger part at this place (`before` or `after`) claim. */
    public static boolean isReached(DecisionTable table, String place, Call call) {
        return !table.reached(place.equals("before") ? call.operation.before : call.operation.after, call).isEmpty();
    }

    /** A fake tool with fixed answers that remembers its requests. */
    public static final class Tool extends ToolLink {
        public final List<Map<String, Object>> asked = new ArrayList<>();
        public final Map<String, Map<String, Object>> answers = new HashMap<>();
        public Runnable whenAsked = () -> { };

        public Tool() {
            super("", json("{'node': 's1', 'incarnation': 2, 'pid': 42}"));
        }

        public Tool answering(String type, String answer) {
            answers.put(type, answer == null ? null : json(answer));
            return this;
        }

        @Override
        public Map<String, Object> ask(Map<String, Object> request) {
            asked.add(new LinkedHashMap<>(request));
            Map<String, Object> answer = answers.get(request.get("type"));
            whenAsked.run();
            return answer;
        }
    }

    /** The receipts of an event file, in order: `seq step action detail`, and the duration. */
    public static final class Receipts {
        public final List<String> texts = new ArrayList<>();
        public final List<Long> held = new ArrayList<>();
        private final Map<Integer, String> strings = new HashMap<>();

        public Receipts(Path path) throws IOException {
            ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(path)).order(ByteOrder.LITTLE_ENDIAN);
            for (int chunk = 0; chunk < data.capacity(); chunk += EventFile.CHUNK) {
                read(data, chunk, 2);
            }
            for (int chunk = 0; chunk < data.capacity(); chunk += EventFile.CHUNK) {
                read(data, chunk, 7);
            }
        }

        private void read(ByteBuffer data, int chunk, int type) {
            int at = chunk + 4;
            int length;
            while (at + 4 < chunk + EventFile.CHUNK && (length = data.getInt(at)) > 0) {
                if (data.get(at + 4) == type && type == 2) {
                    strings.put(data.getInt(at + 5), new String(data.array(), at + 9, length - 9, StandardCharsets.UTF_8));
                } else if (data.get(at + 4) == type) {
                    texts.add(data.getInt(at + 5) + " " + data.getShort(at + 17) + " " + strings.get(data.getInt(at + 27))
                            + " " + strings.get(data.getInt(at + 31)));
                    held.add(data.getLong(at + 19));
                }
                at += length;
            }
        }
    }
}
