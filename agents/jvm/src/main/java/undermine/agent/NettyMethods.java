package undermine.agent;

import java.util.HashMap;
import java.util.Map;

/**
 * The methods of Netty's native transport (epoll) that are woven when they are loaded, as in JdkMethods.
 *
 * Libraries bring Netty along under names of their own: only the end of a class's name counts, and `%` stands for the rest.
 */
final class NettyMethods {
    private static final String DESCRIPTOR = "unix/FileDescriptor";
    private static final String SOCKET = "unix/Socket";
    private static final String LINUX = "epoll/LinuxSocket";
    private static final String NATIVE = "epoll/Native";
    private static final String[] CLASSES = {DESCRIPTOR, SOCKET, LINUX, NATIVE};
    private static final String CHANNEL = "/channel/";
    private static final String SENDER = "L%unix/DatagramSocketAddress;";
    private static final String PACKET = "L%epoll/NativeDatagramPacketArray$NativeDatagramPacket;";
    private static final String TO = "Ljava/net/InetAddress;IZ)I";

    private static final String[][] METHODS = {
        {DESCRIPTOR, "write(Ljava/nio/ByteBuffer;II)I", "NettyHooks.write(this,1,2)"},
        {DESCRIPTOR, "writeAddress(JII)I", "NettyHooks.write(this,1,2)"},
        {DESCRIPTOR, "writev([Ljava/nio/ByteBuffer;IIJ)J", "NettyHooks.write(this,0,1,2)"},
        {DESCRIPTOR, "writevAddresses(JI)J", "NettyHooks.write(this)"},
        {DESCRIPTOR, "read(Ljava/nio/ByteBuffer;II)I", "NettyHooks.read(this,1,2)"},
        {DESCRIPTOR, "readAddress(JII)I", "NettyHooks.read(this,1,2)"},
        {DESCRIPTOR, "close()V", "NettyHooks.close(this)"},
        {SOCKET, "send(Ljava/nio/ByteBuffer;II)I", "NettyHooks.write(this,1,2)"},
        {SOCKET, "sendAddress(JII)I", "NettyHooks.write(this,1,2)"},
        {SOCKET, "recv(Ljava/nio/ByteBuffer;II)I", "NettyHooks.read(this,1,2)"},
        {SOCKET, "recvAddress(JII)I", "NettyHooks.read(this,1,2)"},
        {SOCKET, "connect(Ljava/net/SocketAddress;)Z", "NettyHooks.connect(this,0)", "NettyHooks.connecting(this,0)"},
        {SOCKET, "listen(I)V", "!NettyHooks.listen(this)"},
        {SOCKET, "accept([B)I", "NettyHooks.accept(this)"},
        {SOCKET, "sendTo(Ljava/nio/ByteBuffer;II" + TO, "NettyHooks.sendTo(this,1,2,3,4)"},
        {SOCKET, "sendToAddress(JII" + TO, "NettyHooks.sendTo(this,1,2,3,4)"},
        {SOCKET, "sendToAddresses(JI" + TO, "NettyHooks.sendTo(this,2,3)"},
        {SOCKET, "recvFrom(Ljava/nio/ByteBuffer;II)" + SENDER, "NettyHooks.receive(this,1,2)"},
        {SOCKET, "recvFromAddress(JII)" + SENDER, "NettyHooks.receive(this,1,2)"},
        {LINUX, "sendmmsg([" + PACKET + "II)I", "NettyHooks.sendAll(this,0,1)"},
        {LINUX, "recvmmsg([" + PACKET + "II)I", "NettyHooks.receiveAll(this,0,1)"},
        {LINUX, "recvmsg(" + PACKET + ")I", "NettyHooks.receive(this)"},
        {LINUX, "sendFile(L%DefaultFileRegion;JJJ)J", "NettyHooks.sendFile(this,3)"},
        {NATIVE, "epollCtlAdd(III)V", "!NettyHooks.watched(0,1,2)"},
        {NATIVE, "epollCtlMod(III)V", "!NettyHooks.watched(0,1,2)"},
        {NATIVE, "epollCtlDel(II)V", "!NettyHooks.unwatched(1)"},
    };

    /** Waits for descriptors: woven if Netty is the target's own, and such waits are observed. */
    private static final String EVENTS = "(L%unix/FileDescriptor;L%epoll/EpollEventArray;";
    private static final String[][] POLLS = {
        {NATIVE, "epollWait" + EVENTS + "L%unix/FileDescriptor;IIJ)J", "NettyHooks.pollPacked(3,4)"},
        {NATIVE, "epollWait" + EVENTS + "L%unix/FileDescriptor;II)I", "NettyHooks.poll(3,4)"},
        {NATIVE, "epollWait" + EVENTS + "I)I", "NettyHooks.poll(2)"},
        {NATIVE, "epollWait" + EVENTS + "Z)I", "NettyHooks.poll(2)"},
    };

    private static final String EXECUTORS = "/util/concurrent/";
    /** What hands calls over to event loops, and runs them there: of any Netty. */
    private static final String[][] HANDOVER = {
        {"SingleThreadEventExecutor", "offerTask(Ljava/lang/Runnable;)Z", "!HandoverHooks.give(0)"},
        {"AbstractScheduledEventExecutor", "schedule(L%ScheduledFutureTask;)L%ScheduledFuture;", "!HandoverHooks.give(0)"},
        {"AbstractEventExecutor", "safeExecute(Ljava/lang/Runnable;)V", "HandoverHooks.take(0)"},
        {"AbstractEventExecutor", "runTask(Ljava/lang/Runnable;)V", "HandoverHooks.take(0)"},
    };

    private NettyMethods() {
    }

    /** The methods to weave of a class, or null. Asked for every class of the target: only names are compared. */
    static Map<String, Point> of(String name, boolean withPolls) {
        String type = type(name);
        if (type == null) {
            return null;
        }
        String prefix = name.substring(0, name.length() - type.length());
        Map<String, Point> found = new HashMap<String, Point>();
        put(found, METHODS, type, prefix);
        if (withPolls) {
            put(found, POLLS, type, prefix);
        }
        return found;
    }

    /** Those by which calls are handed over, or null. */
    static Map<String, Point> handover(String name) {
        int end = name.endsWith("Executor") ? name.lastIndexOf(EXECUTORS) + EXECUTORS.length() : 0;
        if (end < EXECUTORS.length()) {
            return null;
        }
        Map<String, Point> found = new HashMap<String, Point>();
        put(found, HANDOVER, name.substring(end), name.substring(0, end));
        return found.isEmpty() ? null : found;
    }

    /** True if a class (`a/b/C`) is one of them. */
    static boolean isOne(String name) {
        return type(name) != null;
    }

    private static String type(String name) {
        for (String each : CLASSES) {
            if (name.endsWith(each) && name.endsWith(CHANNEL + each)) {
                return each;
            }
        }
        return null;
    }

    private static void put(Map<String, Point> into, String[][] rows, String type, String prefix) {
        for (String[] row : rows) {
            if (row[0].equals(type)) {
                into.put(row[1].replace("%", prefix), new Point(row[2], row.length > 3 ? row[3] : null));
            }
        }
    }
}
