package conformance;

import java.io.BufferedReader;
import java.io.Closeable;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.nio.channels.FileChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.security.cert.X509Certificate;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;

/**
 * A target that runs commands, one per line. driver.py understands the same commands and describes them.
 * `plain` is java.io and java.net, `other` is java.nio.
 */
public final class Driver {
    private static boolean other;

    private volatile String mood = "calm";
    private final Map<String, byte[]> values = new ConcurrentHashMap<String, byte[]>();
    private final Map<String, Object> open = new ConcurrentHashMap<>();
    private final Map<String, BlockingQueue<String[]>> queues = new ConcurrentHashMap<>();
    private final Map<String, Thread> threads = new ConcurrentHashMap<>();

    /** The operation has to be tried again later. */
    private static final class Again extends IOException {
        private static final long serialVersionUID = 1;
    }

    /** The exception that a thread dies of. */
    private static final class Gone extends RuntimeException {
        private static final long serialVersionUID = 1;

        Gone(String text, Throwable cause) {
            super(text, cause);
        }
    }

    /** The exception that causes it. */
    private static final class Cause extends RuntimeException {
        private static final long serialVersionUID = 1;

        Cause(String text) {
            super(text);
        }
    }

    public static void main(String[] arguments) throws IOException {
        other = arguments.length > 0 && arguments[0].equals("other");
        Driver driver = new Driver();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            driver.line(line.split(" "));
        }
        System.exit(0);
    }

    // --- files

    private void create(String name, String path) throws IOException {
        if (other) {
            open.put(name, FileChannel.open(Paths.get(path),
                    StandardOpenOption.CREATE_NEW, StandardOpenOption.READ, StandardOpenOption.WRITE));
        } else {
            open.put(name, new FileOutputStream(path));
        }
    }

    private void open(String name, String path) throws IOException {
        if (other) {
            open.put(name, FileChannel.open(Paths.get(path), StandardOpenOption.READ, StandardOpenOption.WRITE));
        } else {
            open.put(name, new RandomAccessFile(path, "rw"));
        }
    }

    private void input(String name, String path) throws IOException {
        open.put(name, other ? FileChannel.open(Paths.get(path), StandardOpenOption.READ) : new FileInputStream(path));
    }

    private String write(String name, String text) throws IOException {
        Object file = open.get(name);
        byte[] data = text.getBytes(StandardCharsets.UTF_8);
        if (file instanceof FileOutputStream) {
            ((FileOutputStream) file).write(data);
        } else if (file instanceof RandomAccessFile) {
            ((RandomAccessFile) file).write(data);
        } else {
            return String.valueOf(((FileChannel) file).write(ByteBuffer.wrap(data)));
        }
        return String.valueOf(data.length);
    }

    private String twice(String name, String text) throws IOException {
        byte[] data = text.getBytes(StandardCharsets.UTF_8);
        if (other) {
            FileChannel channel = (FileChannel) open.get(name);
            channel.write(ByteBuffer.wrap(data));
            channel.write(ByteBuffer.wrap(data));
        } else {
            FileOutputStream stream = (FileOutputStream) open.get(name);
            stream.write(data);
            stream.write(data);
        }
        return null;
    }

    private String read(String name, int size) throws IOException {
        Object file = open.get(name);
        byte[] room = new byte[size];
        int count;
        if (file instanceof FileInputStream) {
            count = ((FileInputStream) file).read(room);
        } else if (file instanceof RandomAccessFile) {
            count = ((RandomAccessFile) file).read(room);
        } else {
            count = ((FileChannel) file).read(ByteBuffer.wrap(room));
        }
        return text(room, Math.max(count, 0));
    }

    private String fsync(String name) throws IOException {
        Object file = open.get(name);
        if (file instanceof FileOutputStream) {
            ((FileOutputStream) file).getFD().sync();
        } else if (file instanceof RandomAccessFile) {
            ((RandomAccessFile) file).getFD().sync();
        } else {
            ((FileChannel) file).force(true);
        }
        return null;
    }

    private String truncate(String name, int size) throws IOException {
        Object file = open.get(name);
        if (file instanceof RandomAccessFile) {
            ((RandomAccessFile) file).setLength(size);
        } else {
            ((FileChannel) file).truncate(size);
        }
        return null;
    }

    private String close(String name) throws IOException {
        ((Closeable) open.remove(name)).close();
        return null;
    }

    private String rename(String one, String two) throws IOException {
        if (other) {
            Files.move(Paths.get(one), Paths.get(two));
        } else {
            agreed(new File(one).renameTo(new File(two)));
        }
        return null;
    }

    private String unlink(String path) throws IOException {
        if (other) {
            Files.delete(Paths.get(path));
        } else {
            agreed(new File(path).delete());
        }
        return null;
    }

    private String mkdir(String path) throws IOException {
        if (other) {
            Files.createDirectory(Paths.get(path));
        } else {
            agreed(new File(path).mkdir());
        }
        return null;
    }

    private String stat(String path) throws IOException {
        return String.valueOf(other ? Files.size(Paths.get(path)) : new File(path).length());
    }

    private String list(String path) throws IOException {
        TreeSet<String> names = new TreeSet<>();
        if (other) {
            try (DirectoryStream<Path> found = Files.newDirectoryStream(Paths.get(path))) {
                for (Path each : found) {
                    names.add(each.getFileName().toString());
                }
            }
        } else {
            String[] found = new File(path).list();
            agreed(found != null);
            names.addAll(Arrays.asList(found));
        }
        return String.join(",", names);
    }

    /** Methods of java.io.File only return false if they fail. */
    private static void agreed(boolean done) throws IOException {
        if (!done) {
            throw new IOException("Input/output error");
        }
    }

    // --- connections

    private static InetSocketAddress at(int port) {
        return new InetSocketAddress("127.0.0.1", port);
    }

    private String listen(String name, int port) throws IOException {
        if (other) {
            open.put(name, ServerSocketChannel.open().bind(at(port)));
        } else {
            ServerSocket listener = new ServerSocket();
            listener.setReuseAddress(true);
            listener.bind(at(port));
            open.put(name, listener);
        }
        return null;
    }

    private String connect(String name, int port) throws IOException {
        if (other) {
            open.put(name, SocketChannel.open(at(port)));
        } else {
            Socket socket = new Socket();
            socket.connect(at(port));
            open.put(name, socket);
        }
        return null;
    }

    /** The socket of a channel connects by another method of the JDK. */
    private String connectWithin(String name, int port, String seconds) throws IOException {
        Socket socket = other ? SocketChannel.open().socket() : new Socket();
        socket.connect(at(port), (int) (1000 * Double.parseDouble(seconds)));
        open.put(name, socket);
        return null;
    }

    private String accept(String name, String listener) throws IOException {
        Object from = open.get(listener);
        open.put(name, other ? ((ServerSocketChannel) from).accept() : ((ServerSocket) from).accept());
        return null;
    }

    private String send(String name, String text) throws IOException {
        byte[] data = text.getBytes(StandardCharsets.UTF_8);
        if (other) {
            if (((SocketChannel) open.get(name)).write(ByteBuffer.wrap(data)) == 0) {
                throw new Again();
            }
        } else {
            ((Socket) open.get(name)).getOutputStream().write(data);
        }
        return null;
    }

    private String recv(String name, int size) throws IOException {
        byte[] room = new byte[size];
        int count = other
                ? ((SocketChannel) open.get(name)).read(ByteBuffer.wrap(room))
                : ((Socket) open.get(name)).getInputStream().read(room);
        if (count == 0) {
            throw new Again();
        }
        return count < 0 ? "end" : text(room, count);
    }

    private String rest(String seconds) throws InterruptedException {
        long milliseconds = (long) (1000 * Double.parseDouble(seconds));
        if (other) {
            Object nobody = new Object();
            synchronized (nobody) {
                nobody.wait(milliseconds);
            }
        } else {
            Thread.sleep(milliseconds);
        }
        return null;
    }

    private String limit(String name, String seconds) throws IOException {
        Object found = open.get(name);
        int milliseconds = (int) (1000 * Double.parseDouble(seconds));
        if (found instanceof DatagramSocket) {
            ((DatagramSocket) found).setSoTimeout(milliseconds);
        } else {
            ((Socket) found).setSoTimeout(milliseconds);
        }
        return null;
    }

    private String nonblocking(String name) throws IOException {
        ((SocketChannel) open.get(name)).configureBlocking(false);
        return null;
    }

    /** Accepts any certificate. */
    private String tls(String name, int port) throws Exception {
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, new TrustManager[] {new Trusting()}, null);
        SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket("127.0.0.1", port);
        socket.startHandshake();
        open.put(name, socket);
        return null;
    }

    private static final class Trusting implements X509TrustManager {
        @Override
        public void checkClientTrusted(X509Certificate[] chain, String kind) {
        }

        @Override
        public void checkServerTrusted(X509Certificate[] chain, String kind) {
        }

        @Override
        public X509Certificate[] getAcceptedIssuers() {
            return new X509Certificate[0];
        }
    }

    private String say(String name, String text) throws IOException {
        ((Socket) open.get(name)).getOutputStream().write(text.getBytes(StandardCharsets.UTF_8));
        return null;
    }

    private String hear(String name, int size) throws IOException {
        byte[] room = new byte[size];
        int count = ((Socket) open.get(name)).getInputStream().read(room);
        return count < 0 ? "end" : text(room, count);
    }

    private String datagram(String name) throws IOException {
        open.put(name, other ? DatagramChannel.open().bind(at(0)) : new DatagramSocket(at(0)));
        return null;
    }

    private String sendto(String name, int port, String text) throws IOException {
        byte[] data = text.getBytes(StandardCharsets.UTF_8);
        if (other) {
            ((DatagramChannel) open.get(name)).send(ByteBuffer.wrap(data), at(port));
        } else {
            ((DatagramSocket) open.get(name)).send(new DatagramPacket(data, data.length, at(port)));
        }
        return null;
    }

    private String recvfrom(String name, int size) throws IOException {
        byte[] room = new byte[size];
        if (other) {
            ByteBuffer buffer = ByteBuffer.wrap(room);
            ((DatagramChannel) open.get(name)).receive(buffer);
            return text(room, buffer.position());
        }
        DatagramPacket packet = new DatagramPacket(room, size);
        ((DatagramSocket) open.get(name)).receive(packet);
        return text(room, packet.getLength());
    }

    // --- methods and variables that triggers and configurations name

    private String feel(String word) {
        mood = word;
        return null;
    }

    private String report(String connection, String kind, String peer) throws IOException {
        message(kind, peer, connection);
        return null;
    }

    private void message(String kind, String peer, String connection) throws IOException {
        ((Socket) open.get(connection)).getOutputStream().write(kind.getBytes(StandardCharsets.UTF_8));
    }

    private String parcel(String connection, String content, String peer) throws IOException {
        byte[] data = content.getBytes(StandardCharsets.UTF_8);
        packed(data, peer, connection);
        return text(data, data.length);
    }

    private void packed(byte[] data, String peer, String connection) throws IOException {
        ((Socket) open.get(connection)).getOutputStream().write(data);
    }

    private String deliver(String kind) {
        handle(kind);
        return mood;
    }

    private void handle(String kind) {
        mood = kind;
    }

    private String keep(String key, String value) {
        stored(key, value.getBytes(StandardCharsets.UTF_8));
        return null;
    }

    private void stored(String key, byte[] value) {
        values.put(key, value);
    }

    private String forget(String key) {
        values.remove(key);
        return null;
    }

    private String look(String key) {
        byte[] found = fetched(key);
        return found == null ? "nothing" : text(found, found.length);
    }

    private byte[] fetched(String key) {
        return values.get(key);
    }

    private String take(String connection, int size) throws IOException {
        byte[] data = taken(connection, size);
        return text(data, data.length);
    }

    private byte[] taken(String connection, int size) throws IOException {
        byte[] room = new byte[size];
        return Arrays.copyOf(room, ((Socket) open.get(connection)).getInputStream().read(room));
    }

    private static String text(byte[] room, int count) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < count; i++) {
            text.append(room[i] < 0 ? String.format("\\x%02x", room[i] & 0xFF) : String.valueOf((char) room[i]));
        }
        return text.toString();
    }

    // --- threads

    private String end(String name) throws InterruptedException {
        return last(name, "leave");
    }

    private String die(String name, String text) throws InterruptedException {
        return last(name, "raise", text);
    }

    private String last(String name, String... words) throws InterruptedException {
        queues.remove(name).add(words);
        threads.remove(name).join();
        return null;
    }

    private String another(String name) throws InterruptedException {
        Thread thread = new Thread(name) {
            @Override
            public void run() {
                try {
                    stat(".");
                } catch (IOException error) {
                    throw new IllegalStateException(error);
                }
            }
        };
        thread.start();
        thread.join();
        return null;
    }

    private void work(BlockingQueue<String[]> lines) {
        while (true) {
            String[] words = take(lines);
            if (words[0].equals("leave")) {
                return;
            }
            if (words[0].equals("raise")) {
                throw new Gone(words[1], new Cause("first"));
            }
            answer(words);
        }
    }

    private static String[] take(BlockingQueue<String[]> lines) {
        try {
            return lines.take();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    // --- lines

    private String deep(String[] words) throws Exception {
        return outer(Arrays.copyOfRange(words, 1, words.length));
    }

    private String outer(String[] words) throws Exception {
        return inner(words);
    }

    private String inner(String[] words) throws Exception {
        return perform(words);
    }

    private String perform(String[] words) throws Exception {
        switch (words[0]) {
            case "create": create(words[1], words[2]); return null;
            case "open": open(words[1], words[2]); return null;
            case "input": input(words[1], words[2]); return null;
            case "write": return write(words[1], words[2]);
            case "twice": return twice(words[1], words[2]);
            case "read": return read(words[1], Integer.parseInt(words[2]));
            case "fsync": return fsync(words[1]);
            case "truncate": return truncate(words[1], Integer.parseInt(words[2]));
            case "close": return close(words[1]);
            case "rename": return rename(words[1], words[2]);
            case "unlink": case "rmdir": return unlink(words[1]);
            case "mkdir": return mkdir(words[1]);
            case "stat": return stat(words[1]);
            case "list": return list(words[1]);
            case "listen": return listen(words[1], Integer.parseInt(words[2]));
            case "connect": return connect(words[1], Integer.parseInt(words[2]));
            case "connect_within": return connectWithin(words[1], Integer.parseInt(words[2]), words[3]);
            case "accept": return accept(words[1], words[2]);
            case "send": return send(words[1], words[2]);
            case "recv": return recv(words[1], Integer.parseInt(words[2]));
            case "nonblocking": return nonblocking(words[1]);
            case "tls": return tls(words[1], Integer.parseInt(words[2]));
            case "say": return say(words[1], words[2]);
            case "hear": return hear(words[1], Integer.parseInt(words[2]));
            case "datagram": return datagram(words[1]);
            case "sendto": return sendto(words[1], Integer.parseInt(words[2]), words[3]);
            case "recvfrom": return recvfrom(words[1], Integer.parseInt(words[2]));
            case "feel": return feel(words[1]);
            case "limit": return limit(words[1], words[2]);
            case "parcel": return parcel(words[1], words[2], words[3]);
            case "deliver": return deliver(words[1]);
            case "take": return take(words[1], Integer.parseInt(words[2]));
            case "keep": return keep(words[1], words[2]);
            case "forget": return forget(words[1]);
            case "look": return look(words[1]);
            case "report": return report(words[1], words[2], words[3]);
            case "end": return end(words[1]);
            case "die": return die(words[1], words[2]);
            case "clocks": return System.nanoTime() + " " + System.currentTimeMillis() * 1000000;
            case "rest": return rest(words[1]);
            case "another": return another(words[1]);
            case "deep": return deep(words);
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    private void answer(String[] words) {
        String said;
        try {
            String result = perform(words);
            said = result == null ? "ok" : "ok " + result;
        } catch (Again error) {
            said = "again";
        } catch (Exception error) {
            said = "error " + nameOf(error);
        }
        synchronized (System.out) {
            System.out.println(Thread.currentThread().getName() + " " + said);
            System.out.flush();
        }
    }

    private static final String[][] NAMES = {
        {"Input/output error", "EIO"},
        {"sync failed", "EIO"},
        {"No space left on device", "ENOSPC"},
        {"No such file or directory", "ENOENT"},
        {"File exists", "EEXIST"},
        {"Connection reset", "ECONNRESET"},
        {"Connection refused", "ECONNREFUSED"},
        {"No route to host", "EHOSTUNREACH"},
        {"Broken pipe", "EPIPE"},
        {"timed out", "ETIMEDOUT"},
    };

    private static String nameOf(Exception error) {
        if (error instanceof NoSuchFileException) {
            return "ENOENT";
        }
        if (error instanceof FileAlreadyExistsException) {
            return "EEXIST";
        }
        String text = String.valueOf(error.getMessage());
        for (String[] known : NAMES) {
            if (text.contains(known[0])) {
                return known[1];
            }
        }
        return error.getClass().getSimpleName() + ":" + text;
    }

    private void line(String[] words) {
        if (!words[0].startsWith("@")) {
            answer(words);
            return;
        }
        String name = words[0].substring(1);
        BlockingQueue<String[]> lines = queues.get(name);
        if (lines == null) {
            final BlockingQueue<String[]> made = new LinkedBlockingQueue<>();
            lines = made;
            queues.put(name, made);
            Thread thread = new Thread(new Runnable() {
                @Override
                public void run() {
                    work(made);
                }
            }, name);
            thread.setDaemon(true);
            threads.put(name, thread);
            thread.start();
        }
        lines.add(Arrays.copyOfRange(words, 1, words.length));
    }
}
