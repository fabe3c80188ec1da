import java.io.EOFException;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Iterator;
import java.util.stream.Stream;

/** The program that the tests run under the JVM agent. Each scenario is a method; it works in the node's folder. */
public class Target {
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            try {
                Target.class.getDeclaredMethod(name).invoke(null);
            } catch (java.lang.reflect.InvocationTargetException wrapped) {
                Throwable error = wrapped.getCause();
                System.out.println(error.getClass().getName() + ": " + error.getMessage());
            }
        }
    }

    static void clock() {
        System.out.println(System.nanoTime());
    }

    // --- files

    static void exclusive() throws Exception {
        for (int i = 0; i < 2; i++) {
            try {
                Files.createFile(Paths.get("e"));
            } catch (java.nio.file.FileAlreadyExistsException there) {
                System.out.println("there");
            }
        }
        new File("e").createNewFile();
    }

    static void streams() throws Exception {
        try (FileOutputStream out = new FileOutputStream("a")) {
            out.write(new byte[5]);
            out.write(new byte[9], 1, 3);
            out.write(7);
            out.getFD().sync();
        }
        try (FileInputStream in = new FileInputStream("a")) {
            in.read();
            in.read(new byte[3]);
            in.read(new byte[10], 2, 8);
            in.read();
        }
        try (FileOutputStream out = new FileOutputStream("a", true)) {
            out.write(1);
        }
    }

    static void random() throws Exception {
        try (RandomAccessFile file = new RandomAccessFile("r", "rw")) {
            file.writeInt(5);
            file.write(new byte[6]);
            file.seek(0);
            file.readInt();
            file.read(new byte[2]);
            file.setLength(3);
            file.getFD().sync();
        }
    }

    static void channel() throws Exception {
        Path path = Paths.get("c");
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            channel.write(ByteBuffer.allocate(4));
            channel.write(ByteBuffer.allocateDirect(6), 2);
            channel.write(new ByteBuffer[] {ByteBuffer.allocate(1), ByteBuffer.allocate(2)});
            channel.force(true);
            channel.truncate(3);
        }
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
            channel.read(ByteBuffer.allocate(2));
            channel.read(ByteBuffer.allocateDirect(9), 1);
        }
    }

    static void channelOfStream() throws Exception {
        try (FileOutputStream out = new FileOutputStream("s")) {
            out.getChannel().write(ByteBuffer.allocate(4));
            out.getChannel().force(false);
        }
        FileChannel channel = new RandomAccessFile("s", "rw").getChannel();
        channel.read(ByteBuffer.allocate(2));
        channel.close();
    }

    static void file() throws Exception {
        new File("d").mkdir();
        new File("d/x").createNewFile();
        new File("d/x").exists();
        new File("d/x").length();
        new File("d").list();
        new File("d").listFiles();
        new File("d/x").renameTo(new File("d/y"));
        new File("d/y").delete();
        new File("d").delete();
    }

    static void paths() throws Exception {
        Path folder = Paths.get("p");
        Files.createDirectory(folder);
        Path file = folder.resolve("f");
        Files.write(file, new byte[8]);
        Files.readAllBytes(file);
        Files.exists(file);
        Files.size(file);
        Files.isDirectory(file);
        try (Stream<Path> all = Files.list(folder)) {
            all.count();
        }
        Files.copy(file, folder.resolve("g"));
        Files.move(file, folder.resolve("h"), StandardCopyOption.ATOMIC_MOVE);
        Files.delete(folder.resolve("h"));
        Files.deleteIfExists(folder.resolve("g"));
        Files.delete(folder);
    }

    /** Methods that return numbers other than byte counts, and reads that fail. */
    static void counts() throws Exception {
        Files.write(Paths.get("n"), new byte[3]);
        new File("n").length();
        new File("n").lastModified();
        try (RandomAccessFile file = new RandomAccessFile("n", "r")) {
            file.readInt();
        } catch (EOFException end) {
            Files.delete(Paths.get("n"));
        }
    }

    static void outside() throws Exception {
        File file = File.createTempFile("outside", "x", new File("/tmp"));
        try (FileOutputStream out = new FileOutputStream(file)) {
            out.write(1);
        }
        file.delete();
    }

    // --- sockets

    static void sockets() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
            Thread client = new Thread("client") {
                @Override
                public void run() {
                    try (Socket socket = new Socket(server.getInetAddress(), server.getLocalPort())) {
                        socket.getOutputStream().write(new byte[6]);
                        socket.getInputStream().read(new byte[4]);
                    } catch (IOException error) {
                        System.out.println("client " + error);
                    }
                }
            };
            client.start();
            try (Socket socket = server.accept()) {
                int got = 0;
                while (got < 6) {
                    got += socket.getInputStream().read(new byte[6]);
                }
                socket.getOutputStream().write(new byte[] {1, 2, 3});
                client.join();
            }
        }
    }

    static void adaptors() throws Exception {
        ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0));
        Thread client = new Thread("client") {
            @Override
            public void run() {
                try (SocketChannel channel = SocketChannel.open()) {
                    channel.socket().connect(server.getLocalAddress(), 5000);
                    channel.socket().getOutputStream().write(new byte[6]);
                    channel.read(ByteBuffer.allocate(4));
                } catch (IOException error) {
                    System.out.println("client " + error);
                }
            }
        };
        client.start();
        SocketChannel channel = server.accept();
        channel.socket().getInputStream().read(new byte[6]);
        channel.write(ByteBuffer.allocateDirect(3));
        client.join();
        channel.close();
        server.close();
    }

    /** Both sides use one selector. */
    static void selector() throws Exception {
        Selector selector = Selector.open();
        ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0));
        server.configureBlocking(false);
        server.register(selector, SelectionKey.OP_ACCEPT);
        server.accept();
        SocketChannel client = SocketChannel.open();
        client.configureBlocking(false);
        client.connect(server.getLocalAddress());
        client.register(selector, SelectionKey.OP_CONNECT);
        boolean isDone = false;
        while (!isDone) {
            selector.select(5000);
            Iterator<SelectionKey> keys = selector.selectedKeys().iterator();
            while (keys.hasNext()) {
                SelectionKey key = keys.next();
                keys.remove();
                isDone |= ready(selector, key, server, client);
            }
        }
        client.close();
        server.close();
        selector.close();
    }

    private static boolean ready(Selector selector, SelectionKey key, ServerSocketChannel server, SocketChannel client)
            throws IOException {
        if (key.isAcceptable()) {
            SocketChannel accepted = server.accept();
            accepted.configureBlocking(false);
            accepted.read(ByteBuffer.allocate(5));
            accepted.register(selector, SelectionKey.OP_READ);
        } else if (key.isConnectable()) {
            client.finishConnect();
            client.read(ByteBuffer.allocate(5));
            client.write(ByteBuffer.allocate(7));
            key.interestOps(0);
        } else if (key.isReadable()) {
            int got = ((SocketChannel) key.channel()).read(ByteBuffer.allocate(9));
            key.channel().close();
            return got > 0;
        }
        return false;
    }

    static void datagrams() throws Exception {
        try (java.net.DatagramSocket one = new java.net.DatagramSocket(0, InetAddress.getLoopbackAddress());
                java.net.DatagramSocket two = new java.net.DatagramSocket()) {
            two.send(new java.net.DatagramPacket(new byte[4], 4, one.getLocalSocketAddress()));
            one.receive(new java.net.DatagramPacket(new byte[9], 9));
        }
    }

    /** Several buffers make one datagram. */
    static void gathered() throws Exception {
        try (java.nio.channels.DatagramChannel one = java.nio.channels.DatagramChannel.open();
                java.nio.channels.DatagramChannel two = java.nio.channels.DatagramChannel.open()) {
            one.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
            two.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
            one.connect(two.getLocalAddress());
            two.connect(one.getLocalAddress());
            one.write(new ByteBuffer[] {ByteBuffer.allocate(3), ByteBuffer.allocate(2)});
            two.read(new ByteBuffer[] {ByteBuffer.allocate(1), ByteBuffer.allocate(9)});
        }
    }

    /** The first argument of the program's `keys` property is a key store with the password "secret". */
    static void secure() throws Exception {
        java.security.KeyStore keys = java.security.KeyStore.getInstance("PKCS12");
        try (InputStream in = new FileInputStream(System.getProperty("keys"))) {
            keys.load(in, "secret".toCharArray());
        }
        javax.net.ssl.KeyManagerFactory own = javax.net.ssl.KeyManagerFactory.getInstance("PKIX");
        own.init(keys, "secret".toCharArray());
        javax.net.ssl.TrustManagerFactory trusted = javax.net.ssl.TrustManagerFactory.getInstance("PKIX");
        trusted.init(keys);
        javax.net.ssl.SSLContext context = javax.net.ssl.SSLContext.getInstance("TLS");
        context.init(own.getKeyManagers(), trusted.getTrustManagers(), null);
        ServerSocket server = context.getServerSocketFactory().createServerSocket(0, 5, InetAddress.getLoopbackAddress());
        Thread client = new Thread("client") {
            @Override
            public void run() {
                try (Socket socket = context.getSocketFactory().createSocket(server.getInetAddress(), server.getLocalPort())) {
                    ((javax.net.ssl.SSLSocket) socket).startHandshake();
                    System.out.println("shaken");
                    socket.getOutputStream().write(new byte[6]);
                    socket.getInputStream().read(new byte[4]);
                } catch (IOException error) {
                    System.out.println("client " + error);
                }
            }
        };
        client.start();
        try (Socket socket = server.accept()) {
            socket.getInputStream().read(new byte[6]);
            socket.getOutputStream().write(new byte[] {1, 2, 3});
            client.join();
        }
        server.close();
    }

    static void refused() throws Exception {
        ServerSocket server = new ServerSocket(0, 5, InetAddress.getLoopbackAddress());
        int port = server.getLocalPort();
        server.close();
        new Socket(InetAddress.getLoopbackAddress(), port).close();
    }

    // --- threads

    static void threads() throws Exception {
        Thread thread = new Thread(new Runnable() {
            @Override
            public void run() {
                throw new IllegalStateException("no more");
            }
        }, "worker-7");
        thread.setUncaughtExceptionHandler(new Thread.UncaughtExceptionHandler() {
            @Override
            public void uncaughtException(Thread dead, Throwable error) {
            }
        });
        thread.start();
        thread.join();
    }

    // --- logical operations

    enum Kind { HELLO, BYE }

    static class Message {
        final Kind kind;
        private final String to;

        Message(Kind kind, String to) {
            this.kind = kind;
            this.to = to;
        }

        String getTo() {
            return to;
        }
    }

    static class Channel {
        long send(Message message, byte[] body) throws IOException {
            new FileOutputStream("sent").close();
            return body.length;
        }

        Message receive() {
            return new Message(Kind.BYE, "s3");
        }
    }

    static void named() throws Exception {
        new Channel().send(new Message(Kind.HELLO, "s2"), new byte[11]);
        new Channel().receive();
    }

    /** A method of the JDK itself. */
    static void queue() throws Exception {
        new java.util.concurrent.LinkedBlockingQueue<Object>().put("hello");
    }

    /** Does something when it is initialised. */
    static class Late {
        static int value = told();

        static int told() {
            System.out.println("initialised");
            return 7;
        }
    }

    static void early() throws Exception {
        Class.forName("Target$Late", false, Target.class.getClassLoader());
        datagrams();
        System.out.println("now");
        Late.value = 8;
        datagrams();
    }

    // --- virtual threads

    static void virtual() throws Exception {
        Thread thread = (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class)
                .invoke(null, new Runnable() {
                    @Override
                    public void run() {
                        try {
                            streams();
                            sockets();
                        } catch (Exception error) {
                            System.out.println(error);
                        }
                    }
                });
        thread.join();
    }

    // --- answers to faults

    interface Action {
        Object act() throws Exception;
    }

    /** Each operation has its own file, which a step can name. */
    static void refusals() throws Exception {
        for (String name : new String[] {"write", "read", "sync", "truncate", "delete", "rename", "list", "stat", "nioRead",
            "nioWrite", "nioSync", "nioDelete", "nioMove", "nioOpen", "ioOpen", "close", "nioClose"}) {
            Files.write(Paths.get(name), new byte[3]);
        }
        say("create", () -> new FileOutputStream("create"));
        say("ioOpen", () -> new FileInputStream("ioOpen"));
        FileOutputStream out = new FileOutputStream("write");
        say("write", () -> { out.write(1); return "written"; });
        say("write again", () -> { out.write(1); return "written"; });
        out.close();
        say("read", () -> new FileInputStream("read").read());
        say("sync", () -> { new FileOutputStream("sync").getFD().sync(); return "synced"; });
        say("truncate", () -> { new RandomAccessFile("truncate", "rw").setLength(1); return "truncated"; });
        FileOutputStream closed = new FileOutputStream("close");
        say("close", () -> { closed.close(); return "closed"; });
        say("valid", () -> closed.getFD().valid());
        say("mkdir", () -> new File("mkdir").mkdir());
        say("delete", () -> new File("delete").delete());
        say("rename", () -> new File("rename").renameTo(new File("renamed")));
        say("list", () -> new File("list").list());
        say("stat", () -> new File("stat").exists());
        say("nioOpen", () -> FileChannel.open(Paths.get("nioOpen"), StandardOpenOption.READ));
        say("nioRead", () -> Files.readAllBytes(Paths.get("nioRead")));
        say("nioWrite", () -> Files.write(Paths.get("nioWrite"), new byte[1]));
        FileChannel channel = FileChannel.open(Paths.get("nioSync"), StandardOpenOption.WRITE);
        say("nioSync", () -> { channel.force(true); return "synced"; });
        FileChannel shut = FileChannel.open(Paths.get("nioClose"), StandardOpenOption.WRITE);
        say("nioClose", () -> { shut.close(); return "closed"; });
        say("nioClosed", () -> shut.isOpen());
        say("nioMkdir", () -> Files.createDirectory(Paths.get("nioMkdir")));
        say("nioDelete", () -> { Files.delete(Paths.get("nioDelete")); return "deleted"; });
        say("nioMove", () -> Files.move(Paths.get("nioMove"), Paths.get("nioMoved")));
    }

    private static void say(String name, Action action) {
        String answer;
        try {
            Object result = action.act();
            answer = result instanceof byte[] ? "bytes" : String.valueOf(result);
        } catch (Exception error) {
            String message = String.valueOf(error.getMessage()).replace(new File("").getAbsolutePath() + "/", "");
            answer = error.getClass().getSimpleName() + ": " + message;
        }
        System.out.println(name + " -> " + answer);
    }

    /** Two connections to the port of the property `port`, where a server answers. */
    static void calls() throws Exception {
        InetSocketAddress there = new InetSocketAddress("127.0.0.1", Integer.getInteger("port"));
        say("connect", () -> { new Socket().connect(there); return "connected"; });
        Socket socket = new Socket();
        say("connect again", () -> { socket.connect(there); return "connected"; });
        say("send", () -> { socket.getOutputStream().write(1); return "sent"; });
        say("send again", () -> { socket.getOutputStream().write(1); return "sent"; });
        say("recv", () -> socket.getInputStream().read());
        say("recv again", () -> socket.getInputStream().read());
        say("close", () -> { socket.close(); return "closed"; });
        say("closed", () -> socket.isClosed());
        SocketChannel channel = SocketChannel.open();
        channel.configureBlocking(false);
        say("start", () -> { channel.connect(there); return "started"; });
        while (!channel.finishConnect()) {
            Thread.sleep(1);
        }
        say("nioSend", () -> channel.write(ByteBuffer.allocate(1)));
        say("nioSend again", () -> channel.write(ByteBuffer.allocate(1)));
        say("nioRecv", () -> received(channel));
        say("nioRecv again", () -> received(channel));
        channel.close();
    }

    /** A channel that couldn't be connected is closed, as the JDK does it. */
    static void unconnected() throws Exception {
        InetSocketAddress there = new InetSocketAddress("127.0.0.1", Integer.getInteger("port"));
        SocketChannel channel = SocketChannel.open();
        say("channel", () -> channel.connect(there));
        say("open", () -> channel.isOpen());
        Socket socket = new Socket();
        say("socket", () -> { socket.connect(there); return "connected"; });
        say("again", () -> { socket.connect(there); return "connected"; });
        socket.close();
    }

    private static int received(SocketChannel channel) throws Exception {
        int count = channel.read(ByteBuffer.allocate(1));
        while (count == 0) {
            Thread.sleep(1);
            count = channel.read(ByteBuffer.allocate(1));
        }
        return count;
    }
}
