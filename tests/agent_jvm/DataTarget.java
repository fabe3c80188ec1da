import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;

/** Writes, reads, sends and receives in many ways, and prints what each one tells about its data. */
public final class DataTarget {
    static final byte[] GOOD = ascii("0123456789");
    static final ArrayDeque<byte[]> INBOX = new ArrayDeque<byte[]>(Arrays.asList(ascii("one"), ascii("two"), ascii("three")));

    public static void main(String[] scenarios) throws Exception {
        for (String scenario : scenarios) {
            switch (scenario) {
                case "writes": writes(); break;
                case "reads": reads(); break;
                case "sends": sends(); break;
                case "scatters": scatters(); break;
                default: methods(); break;
            }
        }
    }

    static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    static void say(String name, Object... facts) {
        System.out.println(name + " " + Arrays.toString(facts));
    }

    /** Bytes as text; those that aren't ASCII as `~`. */
    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.US_ASCII).replace('\ufffd', '~');
    }

    // --- files

    static void writes() throws IOException {
        try (FileOutputStream one = new FileOutputStream("one"); FileOutputStream part = new FileOutputStream("part")) {
            one.write('5');
            part.write(ascii("xx0123456789yy"), 2, 10);
        }
        try (RandomAccessFile shorts = new RandomAccessFile("short", "rw");
                RandomAccessFile ints = new RandomAccessFile("int", "rw");
                RandomAccessFile longs = new RandomAccessFile("long", "rw");
                RandomAccessFile bytes = new RandomAccessFile("bytes", "rw");
                RandomAccessFile chars = new RandomAccessFile("chars", "rw")) {
            shorts.writeShort(0x0102);
            ints.writeInt(0x01020304);
            longs.writeLong(0x0102030405060708L);
            bytes.writeBytes("0123456789");
            chars.writeChars("01234");
        }
        ByteBuffer[] many = {ByteBuffer.wrap(ascii("no")), ByteBuffer.wrap(ascii("01234")), ByteBuffer.wrap(ascii("56789"))};
        try (FileChannel gather = FileChannel.open(Paths.get("gather"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            say("gather", gather.write(many, 1, 2), many[0].position(), many[1].position(), many[2].position(),
                    gather.position(), text(many[2].array()));
        }
        ByteBuffer direct = ByteBuffer.allocateDirect(14);
        direct.put(ascii("xx0123456789yy")).position(2).limit(12);
        ByteBuffer view = direct.asReadOnlyBuffer();
        try (FileChannel at = FileChannel.open(Paths.get("at"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            say("at", at.write(view, 3), view.position(), view.limit(), at.position());
        }
    }

    static void reads() throws IOException {
        for (String name : new String[] {"one", "int", "at", "scatter", "transfer"}) {
            Files.write(Paths.get(name), GOOD);
        }
        try (FileInputStream one = new FileInputStream("one")) {
            say("one", one.skip(5), one.read(), one.read());
        }
        try (RandomAccessFile file = new RandomAccessFile("int", "r")) {
            file.seek(4);
            say("int", Integer.toHexString(file.readInt()), file.getFilePointer());
        }
        try (FileChannel at = FileChannel.open(Paths.get("at")); FileChannel scatter = FileChannel.open(Paths.get("scatter"));
                FileChannel transfer = FileChannel.open(Paths.get("transfer"));
                FileChannel copy = FileChannel.open(Paths.get("copy"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            ByteBuffer room = ByteBuffer.allocate(8);
            room.position(1).limit(6);
            say("at", at.read(room, 3), room.position(), text(room.array()), at.position());
            ByteBuffer[] rooms = {ByteBuffer.allocate(3), ByteBuffer.allocate(7)};
            say("scatter", scatter.read(rooms), text(rooms[0].array()), text(rooms[1].array()));
            say("transfer", transfer.transferTo(0, 10, copy), text(Files.readAllBytes(Paths.get("copy"))));
        }
    }

    // --- connections: to itself

    static void sends() throws IOException {
        Files.write(Paths.get("file"), GOOD);
        try (ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0));
                SocketChannel client = SocketChannel.open(server.getLocalAddress()); SocketChannel peer = server.accept();
                FileChannel file = FileChannel.open(Paths.get("file"))) {
            say("before", client.write(ByteBuffer.wrap(ascii("before"))));
            ByteBuffer one = ByteBuffer.wrap(GOOD);
            one.position(2);
            say("lost", client.write(one), one.position());
            ByteBuffer[] many = {ByteBuffer.wrap(ascii("no")), ByteBuffer.wrap(GOOD), ByteBuffer.wrap(ascii("yes"))};
            say("gather", client.write(many, 1, 2), many[0].position(), many[1].position(), many[2].position());
            say("file", file.transferTo(4, 100, client), file.position());
            client.socket().getOutputStream().write(GOOD);
            client.configureBlocking(false);
            ByteBuffer last = ByteBuffer.wrap(GOOD);
            say("non-blocking", client.write(last), last.position());
            client.write(ByteBuffer.wrap(GOOD));
            ByteBuffer room = ByteBuffer.allocate(100);
            say("peer", peer.read(room), text(Arrays.copyOf(room.array(), room.position())));
        }
    }

    static void scatters() throws IOException {
        try (ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0));
                SocketChannel client = SocketChannel.open(server.getLocalAddress()); SocketChannel peer = server.accept()) {
            client.write(ByteBuffer.wrap(GOOD));
            ByteBuffer[] rooms = {ByteBuffer.allocate(3), ByteBuffer.allocate(20)};
            say("scatter", peer.read(rooms), text(rooms[0].array()), rooms[1].position(),
                    text(Arrays.copyOf(rooms[1].array(), 7)));
            ByteBuffer[] many = {ByteBuffer.wrap(ascii("01234")), ByteBuffer.wrap(ascii("56789"))};
            say("gather", client.write(many), many[0].position(), many[1].position(), text(many[1].array()));
            ByteBuffer room = ByteBuffer.allocate(100);
            say("peer", peer.read(room), text(Arrays.copyOf(room.array(), room.position())));
        }
    }

    // --- methods that the configuration names

    static void methods() {
        say("methods", truth("a"), number("b"), object("c"), future("d").isDone(), text(next()), text(next()));
        ByteBuffer own = ByteBuffer.wrap(GOOD);
        say("parcel", parcel(own), own.position(), text(own.array()));
    }

    static boolean truth(String kind) {
        throw new IllegalStateException(kind);
    }

    static int number(String kind) {
        throw new IllegalStateException(kind);
    }

    static Object object(String kind) {
        throw new IllegalStateException(kind);
    }

    static CompletableFuture<String> future(String kind) {
        throw new IllegalStateException(kind);
    }

    static byte[] next() {
        return INBOX.remove();
    }

    static String parcel(ByteBuffer data) {
        byte[] found = new byte[6];
        data.get(found);
        return text(found);
    }
}
