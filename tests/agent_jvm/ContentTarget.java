import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.nio.channels.FileChannel;
import java.nio.channels.Selector;
import java.nio.channels.SelectionKey;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.security.KeyStore;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Moves bytes in many ways. Each way has a text of its own, which ends with its name. */
public final class ContentTarget {
    static final InetAddress HERE = InetAddress.getLoopbackAddress();

    public static void main(String[] scenarios) throws Exception {
        for (String scenario : scenarios) {
            switch (scenario) {
                case "streams": streams(); break;
                case "random": random(); break;
                case "channels": channels(); break;
                case "sockets": sockets(); break;
                case "blocking": blocking(); break;
                case "selected": selected(); break;
                case "datagrams": datagrams(); break;
                case "secure": secure(); break;
                default: named(Integer.getInteger("port")); break;
            }
        }
    }

    static byte[] text(String way) {
        return ("text-" + way).getBytes(StandardCharsets.US_ASCII);
    }

    static ByteBuffer buffer(String way) {
        return ByteBuffer.wrap(text(way));
    }

    /** A buffer in which the text has other bytes before and behind it. */
    static ByteBuffer direct(String way) {
        ByteBuffer made = ByteBuffer.allocateDirect(100);
        made.put(buffer("outside")).put((byte) ' ');
        int start = made.position();
        made.put(text(way));
        int end = made.position();
        made.put((byte) ' ').put(buffer("outside"));
        made.position(start).limit(end);
        return made.asReadOnlyBuffer();
    }

    // --- files

    static void streams() throws Exception {
        try (FileOutputStream out = new FileOutputStream("file")) {
            out.write(text("array"));
            out.write(("...text-part...").getBytes(StandardCharsets.US_ASCII), 3, 9);
            out.write('x');
        }
        try (FileInputStream in = new FileInputStream("file")) {
            in.read(new byte[10]);
            in.read(new byte[100], 50, 9);
            in.read(new byte[100]);
            in.read(new byte[100]);
        }
    }

    static void random() throws Exception {
        try (RandomAccessFile file = new RandomAccessFile("file", "rw")) {
            file.writeLong(0x100000002L);
            file.writeInt(0x00ABCDEF);
            file.writeBytes("text-latin\n");
            file.writeChars("abcdef");
            file.write(text("array"));
            file.seek(0);
            file.readLong();
            file.readInt();
            file.readLine();
            file.readChar();
            file.seek(8 + 4 + 11 + 12);
            file.read(new byte[50], 5, 45);
        }
    }

    static void channels() throws Exception {
        try (FileChannel file = FileChannel.open(Paths.get("file"), StandardOpenOption.CREATE, StandardOpenOption.READ,
                StandardOpenOption.WRITE)) {
            file.write(direct("buffer"));
            file.write(new ByteBuffer[] {buffer("outside"), buffer("gather"), buffer("ed"), buffer("outside")}, 1, 2);
            file.write(buffer("placed"), 200);
            file.position(0);
            file.read((ByteBuffer) ByteBuffer.allocateDirect(40).position(20).limit(31));
            file.read(new ByteBuffer[] {ByteBuffer.allocate(4), ByteBuffer.allocate(14)});
            file.read(ByteBuffer.allocate(50), 200);
        }
    }

    // --- connections

    static void sockets() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 5, HERE); Socket client = new Socket(HERE, server.getLocalPort());
                Socket peer = server.accept()) {
            talk(client, peer, "stream");
        }
    }

    static void talk(Socket client, Socket peer, String way) throws Exception {
        client.getOutputStream().write(text(way));
        peer.getInputStream().read(new byte[100], 10, 90);
    }

    static void blocking() throws Exception {
        try (ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress(HERE, 0));
                SocketChannel client = SocketChannel.open(server.getLocalAddress()); SocketChannel peer = server.accept()) {
            client.write(direct("buffer"));
            peer.read(ByteBuffer.allocate(100));
            client.write(new ByteBuffer[] {buffer("gather"), buffer("ed")});
            peer.read(new ByteBuffer[] {ByteBuffer.allocate(3), ByteBuffer.allocateDirect(90)});
            talk(client.socket(), peer.socket(), "adaptor");
        }
    }

    /** A write that takes only a part of what it is given, and a read that gets nothing. */
    static void selected() throws Exception {
        try (ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress(HERE, 0));
                SocketChannel client = SocketChannel.open(server.getLocalAddress()); SocketChannel peer = server.accept();
                Selector selector = Selector.open()) {
            client.configureBlocking(false);
            peer.configureBlocking(false);
            peer.read(ByteBuffer.allocate(100));
            client.write(direct("buffer"));
            peer.register(selector, SelectionKey.OP_READ);
            selector.select();
            peer.read(ByteBuffer.allocateDirect(100));
            ByteBuffer much = ByteBuffer.allocate(64 << 20);
            much.put(text("begin")).put((byte) '.').position(much.limit() - 8);
            much.put(text("end")).position(0);
            int count = client.write(much);
            if (count <= 0 || count >= much.limit() || much.position() != count) {
                throw new IllegalStateException("wrote " + count);
            }
        }
    }

    static void datagrams() throws Exception {
        try (DatagramSocket server = new DatagramSocket(0, HERE); DatagramSocket client = new DatagramSocket(0, HERE)) {
            byte[] packet = text("packet");
            client.send(new DatagramPacket(packet, packet.length, HERE, server.getLocalPort()));
            server.receive(new DatagramPacket(new byte[100], 7, 90));
        }
        try (DatagramChannel server = DatagramChannel.open().bind(new InetSocketAddress(HERE, 0));
                DatagramChannel client = DatagramChannel.open()) {
            client.send(direct("datagram"), server.getLocalAddress());
            server.receive(ByteBuffer.allocate(100));
        }
    }

    /** The property `keys` names a key store with the password "secret". */
    static void secure() throws Exception {
        KeyStore keys = KeyStore.getInstance("PKCS12");
        try (InputStream in = new FileInputStream(System.getProperty("keys"))) {
            keys.load(in, "secret".toCharArray());
        }
        KeyManagerFactory own = KeyManagerFactory.getInstance("PKIX");
        own.init(keys, "secret".toCharArray());
        TrustManagerFactory trusted = TrustManagerFactory.getInstance("PKIX");
        trusted.init(keys);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(own.getKeyManagers(), trusted.getTrustManagers(), null);
        try (ServerSocket server = context.getServerSocketFactory().createServerSocket(0, 5, HERE);
                Socket client = context.getSocketFactory().createSocket(HERE, server.getLocalPort());
                Socket peer = server.accept()) {
            Thread writer = new Thread(() -> write(client, "secret"), "writer");
            writer.start();
            peer.getInputStream().read(new byte[100], 10, 90);
            writer.join();
        }
    }

    static void write(Socket socket, String way) {
        try {
            socket.getOutputStream().write(text(way));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** Sends to the port of a peer. */
    static void named(int port) throws Exception {
        try (ServerSocket server = new ServerSocket(port, 5, HERE); Socket client = new Socket(HERE, port);
                Socket peer = server.accept()) {
            send(client, text("named"));
        }
    }

    /** The configuration names this method. */
    static void send(Socket to, byte[] message) throws Exception {
        to.getOutputStream().write(message);
    }
}
