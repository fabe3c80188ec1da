import undermine.agent.wire.Cursor;
import undermine.agent.wire.EventFile;

/** Writes the golden file with the JVM agent's writer: the same calls as protocol/golden/generate.py. */
public final class Golden {
    private Golden() {
    }

    public static void main(String[] arguments) throws Exception {
        EventFile writer = new EventFile(arguments[0]);
        Cursor main = new Cursor(writer);
        Cursor other = new Cursor(writer);
        writer.process(main, arguments[1]);
        int inner = writer.frame(main, "granary.store:Store.put#3", 41);
        int outer = writer.frame(main, "granary.node:main#0", 7);
        int stack = writer.stack(main, new int[] {inner, outer});
        int brief = writer.stack(main, new int[] {outer});
        int op = writer.string(main, "file.write");
        int target = writer.string(main, "log-<n>.txt");
        int resource = writer.string(main, "/d/s1/log-17.txt");
        int thread = writer.string(main, "MainThread");
        writer.begin(main, 1, 1_000_000_001L, op, stack, target, resource, thread, 512);
        writer.end(main, 1, 1_000_000_900L, 512, 0);
        int send = writer.string(other, "net.send");
        int peer = writer.string(other, "peer:s2");
        int named = writer.string(other, "sender \u00e9");
        writer.begin(other, 2, 1_000_000_500L, send, brief, peer, 0, named, 10);
        writer.end(other, 2, 1_000_000_700L, 0, writer.string(other, "ECONNRESET"));
        int action = writer.string(other, "error");
        int detail = writer.string(other, "before net.send peer:s2: ECONNRESET once");
        writer.receipt(other, 2, 1_000_000_600L, 0, 0, action, detail);
        int mapped = writer.string(main, "file.map_write");
        writer.begin(main, 3, 1_000_002_000L, mapped, stack, target, resource, thread, -1);
        int crash = writer.string(main, "crash");
        writer.receipt(main, 3, 1_000_002_500L, 1, 12_345, crash, 0);
    }
}
