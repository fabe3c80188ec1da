package undermine.agent.facts;

import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.tree.MethodInsnNode;
import undermine.agent.values.AbstractValue;
import undermine.agent.values.Origin;

/**
 * Finds calls that do I/O: of the JDK's files, streams, sockets and channels, of Netty's channels, and of methods that the
 * user named. Streams that write to memory, and the console, don't count.
 */
final class IoCalls {
    private static final String IO = "java/io/";
    private static final String NIO = "java/nio/channels/";
    private static final String NETTY = "io/netty/channel/";
    private static final String READS = "read* skip* transferTo:file.read";
    private static final String WRITES = "write* append print* println format newLine:file.write flush:file.write";
    /** A type, and the names of methods with their operation. The first type that fits counts. `*` ends a prefix. */
    private static final String[][] TYPES = {
        {IO + "FileInputStream", "<init>:file.open", READS, "close:file.close"},
        {IO + "FileOutputStream", "<init>:file.open", WRITES, "close:file.close"},
        {IO + "FileReader", "<init>:file.open", READS, "close:file.close"},
        {IO + "FileWriter", "<init>:file.open", WRITES, "close:file.close"},
        {IO + "RandomAccessFile", "<init>:file.open", READS, WRITES, "setLength:file.truncate", "close:file.close"},
        {IO + "FileDescriptor", "sync:file.fsync"},
        {IO + "File", "delete deleteOnExit:file.unlink", "renameTo:file.rename", "mkdir mkdirs:file.mkdir",
            "createNewFile createTempFile:file.create", "list listFiles:file.list",
            "exists isDirectory isFile isHidden canRead canWrite canExecute length lastModified:file.stat"},
        {"java/nio/file/Files", "new* lines:file.open", "read*:file.read", "write*:file.write", "delete*:file.unlink",
            "move:file.rename", "createDirector*:file.mkdir", "create* copy:file.create", "list walk* find:file.list",
            "exists notExists is* size get* probe*:file.stat", "set*:file.write"},
        {NIO + "FileChannel", "open:file.open", "read map:file.read", "write transferFrom:file.write", "transferTo:file.read",
            "force:file.fsync", "truncate:file.truncate", "close:file.close", "lock tryLock:file.write"},
        {NIO + "SocketChannel", "connect finishConnect open:net.connect", "read:net.recv", "write:net.send", "close:net.close"},
        {NIO + "ServerSocketChannel", "accept:net.accept", "close:net.close"},
        {NIO + "DatagramChannel", "send write:net.send", "receive read:net.recv", "close:net.close"},
        {NIO + "AsynchronousByteChannel", "read:net.recv", "write:net.send", "connect:net.connect", "close:net.close"},
        {NIO + "AsynchronousFileChannel", "open:file.open", "read:file.read", "write:file.write", "force:file.fsync"},
        {NIO + "Selector", ""},
        {NIO + "ReadableByteChannel", "read:file.read", "close:file.close"},
        {NIO + "WritableByteChannel", "write:file.write", "close:file.close"},
        {"java/net/Socket", "<init> connect:net.connect", "startHandshake:net.connect", "close:net.close"},
        {"java/net/ServerSocket", "accept:net.accept", "close:net.close"},
        {"java/net/DatagramSocket", "send:net.send", "receive:net.recv", "close:net.close"},
        {"java/net/URLConnection", "connect getInputStream getOutputStream getContent getResponseCode:net.connect"},
        {"java/net/URL", "openStream getContent:net.connect"},
        {"java/net/http/HttpClient", "send sendAsync:net.send"},
        {"java/util/Properties", "load loadFromXML:file.read", "store storeToXML:file.write"},
        {"java/util/Scanner", "next* hasNext*:file.read", "close:file.close"},
        {IO + "InputStream", READS, "close:file.close"},
        {IO + "Reader", READS, "close:file.close"},
        {IO + "ObjectInput", READS, "close:file.close"},
        {IO + "DataInput", READS},
        {IO + "OutputStream", WRITES, "close:file.close"},
        {IO + "Writer", WRITES, "close:file.close"},
        {IO + "ObjectOutput", WRITES, "close:file.close"},
        {IO + "DataOutput", WRITES},
        {"java/util/zip/ZipFile", "<init>:file.open", "close:file.close"},
        {"java/lang/ProcessBuilder", "start:process.start"},
        {"java/lang/Runtime", "exec:process.start"},
        {NETTY + "ChannelOutboundInvoker", "write writeAndFlush flush:net.send", "connect:net.connect",
            "close disconnect:net.close"},
    };
    private static final Set<String> IN_MEMORY = Set.of(IO + "ByteArrayInputStream", IO + "ByteArrayOutputStream",
            IO + "StringReader", IO + "StringWriter", IO + "CharArrayReader", IO + "CharArrayWriter", IO + "StringBufferInputStream",
            IO + "SequenceInputStream", IO + "PipedInputStream", IO + "PipedOutputStream", IO + "PipedReader", IO + "PipedWriter");
    private static final Set<String> CONSOLE = Set.of("java.lang.System.out", "java.lang.System.err", "java.lang.System.in");
    private static final List<String> STREAMS =
            List.of(IO + "InputStream", IO + "OutputStream", IO + "Reader", IO + "Writer", IO + "DataInput", IO + "DataOutput");
    private static final Set<String> NETWORK =
            Set.of("java/net/Socket", "java/net/URLConnection", "java/net/URL", NIO + "SocketChannel");
    private static final int DEPTH_MAX = 6;

    private enum Device {
        MEMORY, CONSOLE, NETWORK, FILE, UNKNOWN
    }

    private final TargetClasses classes;
    private final CallGraph graph;
    private final NamedMethods named;
    /** By method: the arguments of the constructor calls of its new objects, by the index of the creation. */
    private final Map<MethodCode, Map<Integer, MethodCode.Call>> constructors = new HashMap<>();
    private final Map<String, Map<String, String>> tables = new HashMap<>();
    /** Known devices: without them, every way through the callers of a method would be followed. */
    private final Map<Below, Device> devices = new HashMap<>();

    /** A question for the device below a stream. */
    private record Below(MethodCode method, Origin origin, int depth) {
    }

    IoCalls(TargetClasses classes, CallGraph graph, NamedMethods named) {
        this.classes = classes;
        this.graph = graph;
        this.named = named;
    }

    /** The operation that a call does; empty if it does no I/O. */
    String operation(MethodCode.Call call) {
        if (call.node() == null) {
            return "";
        }
        String own = named.operation(call.node().owner, call.node().name, call.node().desc);
        if (!own.isEmpty()) {
            return own;
        }
        boolean isOwn = classes.hierarchy.own(call.node().owner) != null;
        if (isOwn && (call.node().name.equals("<init>")
                || classes.resolved(call.node().owner, call.node().name, call.node().desc) != null)) {
            return "";
        }
        if (call.node().name.equals("<init>") && call.method().node.name.equals("<init>") && isOfSuper(call)) {
            return "";
        }
        String found = tableOf(call.node().owner).entrySet().stream()
                .filter(row -> fits(row.getKey(), call.node().name)).map(Map.Entry::getValue).findFirst().orElse("");
        return found.startsWith("file.") && isStream(call.node().owner) ? ofStream(call, found) : found;
    }

    private static boolean isOfSuper(MethodCode.Call call) {
        return call.receiver().isOnly(Origin.Kind.THIS);
    }

    private static boolean fits(String pattern, String name) {
        return pattern.endsWith("*") ? name.startsWith(pattern.substring(0, pattern.length() - 1)) : name.equals(pattern);
    }

    /** The patterns of names and their operations, of the first type in the table that this class is. */
    private Map<String, String> tableOf(String owner) {
        return tables.computeIfAbsent(owner, key -> {
            Map<String, String> rows = new LinkedHashMap<>();
            Set<String> above = owner.startsWith("[") ? Set.of() : classes.hierarchy.above(owner);
            for (String[] type : TYPES) {
                if (above.contains(type[0])) {
                    for (int i = 1; i < type.length; i++) {
                        putRows(rows, type[i]);
                    }
                    break;
                }
            }
            return rows;
        });
    }

    /** `read* skip*:file.read flush:file.write` has names, and after the colon the operation of those before it. */
    private static void putRows(Map<String, String> rows, String text) {
        Set<String> open = new HashSet<>();
        for (String word : text.split(" ")) {
            int colon = word.indexOf(':');
            open.add(colon < 0 ? word : word.substring(0, colon));
            if (colon >= 0) {
                open.forEach(each -> rows.putIfAbsent(each, word.substring(colon + 1)));
                open.clear();
            }
        }
    }

    // --- streams: what is below them

    private boolean isStream(String owner) {
        return STREAMS.stream().anyMatch(each -> classes.hierarchy.is(owner, each))
                && !classes.hierarchy.is(owner, IO + "RandomAccessFile");
    }

    private String ofStream(MethodCode.Call call, String operation) {
        switch (below(call.method(), call.receiver(), DEPTH_MAX)) {
            case MEMORY, CONSOLE:
                return "";
            case NETWORK:
                return operation.replace("file.read", "net.recv").replace("file.write", "net.send").replace("file.close", "net.close");
            default:
                return operation;
        }
    }

    /** The device that all origins of a stream share; UNKNOWN if they differ. */
    private Device below(MethodCode method, AbstractValue stream, int depth) {
        if (IN_MEMORY.contains(stream.type())) {
            return Device.MEMORY;
        }
        if (stream.origins().isEmpty() || depth == 0) {
            return Device.UNKNOWN;
        }
        Device found = null;
        for (Origin origin : stream.origins()) {
            Device each = below(method, origin, depth);
            found = found == null || found == each ? each : Device.UNKNOWN;
        }
        return found;
    }

    private Device below(MethodCode method, Origin origin, int depth) {
        Below question = new Below(method, origin, depth);
        Device known = devices.get(question);
        if (known == null) {
            known = found(method, origin, depth);
            devices.put(question, known);
        }
        return known;
    }

    private Device found(MethodCode method, Origin origin, int depth) {
        switch (origin.kind()) {
            case FIELD:
                return CONSOLE.contains(origin.text()) ? Device.CONSOLE : ofField(origin.text(), depth);
            case CALL:
                return ofCall(method, origin);
            case NEW:
                return ofNew(method, origin, depth);
            case PARAMETER:
                return ofParameter(method, origin, depth);
            default:
                return Device.UNKNOWN;
        }
    }

    private Device ofCall(MethodCode method, Origin origin) {
        if (origin.at() < 0 || !(method.node.instructions.get(origin.at()) instanceof MethodInsnNode call)) {
            return Device.UNKNOWN;
        }
        boolean isNetwork = NETWORK.stream().anyMatch(each -> classes.hierarchy.is(call.owner, each));
        return isNetwork ? Device.NETWORK : Device.UNKNOWN;
    }

    /** The device that all callers pass. */
    private Device ofParameter(MethodCode method, Origin origin, int depth) {
        int slot = Integer.parseInt(origin.text().substring(origin.text().indexOf(' ') + 1)) - (method.is(Opcodes.ACC_STATIC) ? 0 : 1);
        Type[] parameters = Type.getArgumentTypes(method.node.desc);
        int number = 0;
        while (number < parameters.length && slot > 0) {
            slot -= parameters[number++].getSize();
        }
        Device found = null;
        for (CallGraph.Caller caller : graph.callers(method)) {
            Device each = below(caller.call().method(), caller.call().argument(number), depth - 1);
            found = found == null || found == each ? each : Device.UNKNOWN;
        }
        return found == null ? Device.UNKNOWN : found;
    }

    private Device ofField(String field, int depth) {
        Device found = null;
        for (TargetClasses.Store store : classes.stores.getOrDefault(field, List.of())) {
            if (!store.value().isOnly(Origin.Kind.NULL)) {
                Device each = below(store.method(), store.value(), depth - 1);
                found = found == null || found == each ? each : Device.UNKNOWN;
            }
        }
        return found == null ? Device.UNKNOWN : found;
    }

    /** A stream around another one is on the same device. */
    private Device ofNew(MethodCode method, Origin origin, int depth) {
        String type = origin.text().split(" ")[1];
        if (IN_MEMORY.stream().anyMatch(each -> classes.hierarchy.is(type, each))) {
            return Device.MEMORY;
        }
        if (type.startsWith(IO + "File")) {
            return Device.FILE;
        }
        MethodCode.Call made = constructorsOf(method).get(origin.at());
        Type[] parameters = made == null ? new Type[0] : Type.getArgumentTypes(made.node().desc);
        for (int i = 0; i < parameters.length; i++) {
            if (parameters[i].getSort() == Type.OBJECT && isStream(parameters[i].getInternalName())) {
                return below(method, made.argument(i), depth - 1);
            }
        }
        return Device.UNKNOWN;
    }

    private Map<Integer, MethodCode.Call> constructorsOf(MethodCode method) {
        return constructors.computeIfAbsent(method, key -> {
            Map<Integer, MethodCode.Call> found = new HashMap<>();
            for (MethodCode.Call call : method.calls) {
                if (call.node() != null && call.node().name.equals("<init>") && call.receiver().isOnly(Origin.Kind.NEW)) {
                    found.putIfAbsent(call.receiver().origins().iterator().next().at(), call);
                }
            }
            return found;
        });
    }
}
