package undermine.agent.weave;

import java.util.HashMap;
import java.util.Map;
import undermine.agent.stacks.NettyNames;

/**
 * The methods of Netty's native transport (epoll) that are woven, with rows as in JdkMethods.
 *
 * Libraries ship Netty under package names of their own: only the end of a class's name counts, and `%` stands for the
 * rest.
 */
final class NettyMethods {
    private static final String DESCRIPTOR = NettyNames.DESCRIPTOR;
    private static final String SOCKET = NettyNames.SOCKET;
    private static final String LINUX = NettyNames.LINUX;
    private static final String NATIVE = NettyNames.NATIVE;
    private static final String SENDER = "L%unix/DatagramSocketAddress;";
    private static final String PACKET = "L%epoll/NativeDatagramPacketArray$NativeDatagramPacket;";
    private static final String TO = "Ljava/net/InetAddress;IZ)I";

    private static final String[][] METHODS = {
        {DESCRIPTOR, "write(Ljava/nio/ByteBuffer;II)I", "net/NettyHooks.write(this,1,2)"},
        {DESCRIPTOR, "writeAddress(JII)I", "net/NettyHooks.write(this,1,2)"},
        {DESCRIPTOR, "writev([Ljava/nio/ByteBuffer;IIJ)J", "net/NettyHooks.write(this,0,1,2)"},
        {DESCRIPTOR, "writevAddresses(JI)J", "net/NettyHooks.writeAll(this,0,1)"},
        {DESCRIPTOR, "read(Ljava/nio/ByteBuffer;II)I", "net/NettyHooks.read(this,1,2)"},
        {DESCRIPTOR, "readAddress(JII)I", "net/NettyHooks.read(this,1,2)"},
        {DESCRIPTOR, "close()V", "net/NettyHooks.close(this)"},
        {SOCKET, "send(Ljava/nio/ByteBuffer;II)I", "net/NettyHooks.write(this,1,2)"},
        {SOCKET, "sendAddress(JII)I", "net/NettyHooks.write(this,1,2)"},
        {SOCKET, "recv(Ljava/nio/ByteBuffer;II)I", "net/NettyHooks.read(this,1,2)"},
        {SOCKET, "recvAddress(JII)I", "net/NettyHooks.read(this,1,2)"},
        {SOCKET, "connect(Ljava/net/SocketAddress;)Z", "net/NettyHooks.connect(this,0)", "net/NettyHooks.connecting(this,0)"},
        {SOCKET, "listen(I)V", "!net/NettyHooks.listen(this)"},
        {SOCKET, "accept([B)I", "net/NettyHooks.accept(this)"},
        {SOCKET, "sendTo(Ljava/nio/ByteBuffer;II" + TO, "net/NettyHooks.sendTo(this,1,2,3,4)"},
        {SOCKET, "sendToAddress(JII" + TO, "net/NettyHooks.sendTo(this,1,2,3,4)"},
        {SOCKET, "sendToAddresses(JI" + TO, "net/NettyHooks.sendAllTo(this,0,1,2,3)"},
        {SOCKET, "recvFrom(Ljava/nio/ByteBuffer;II)" + SENDER, "net/NettyHooks.receive(this,1,2)"},
        {SOCKET, "recvFromAddress(JII)" + SENDER, "net/NettyHooks.receive(this,1,2)"},
        {LINUX, "sendmmsg([" + PACKET + "II)I", "net/NettyHooks.sendAll(this,0,1)"},
        {LINUX, "recvmmsg([" + PACKET + "II)I", "net/NettyHooks.receiveAll(this,0,1)"},
        {LINUX, "recvmsg(" + PACKET + ")I", "net/NettyHooks.receive(this)"},
        {LINUX, "sendFile(L%DefaultFileRegion;JJJ)J", "net/NettyHooks.sendFile(this,3)"},
        {NATIVE, "epollCtlAdd(III)V", "!net/NettyHooks.watched(0,1,2)"},
        {NATIVE, "epollCtlMod(III)V", "!net/NettyHooks.watched(0,1,2)"},
        {NATIVE, "epollCtlDel(II)V", "!net/NettyHooks.unwatched(1)"},
    };

    /** Waits for descriptors: woven if Netty belongs to the target's packages and waits are observed. */
    private static final String EVENTS = "(L%unix/FileDescriptor;L%epoll/EpollEventArray;";
    private static final String[][] POLLS = {
        {NATIVE, "epollWait" + EVENTS + "L%unix/FileDescriptor;IIJ)J", "net/NettyHooks.pollPacked(3,4)"},
        {NATIVE, "epollWait" + EVENTS + "L%unix/FileDescriptor;II)I", "net/NettyHooks.poll(3,4)"},
        {NATIVE, "epollWait" + EVENTS + "I)I", "net/NettyHooks.poll(2)"},
        {NATIVE, "epollWait" + EVENTS + "Z)I", "net/NettyHooks.poll(2)"},
    };

    private static final String EXECUTORS = "/util/concurrent/";
    /** Methods that hand work over to event loops, and methods that run it there. */
    private static final String[][] HANDOVER = {
        {"SingleThreadEventExecutor", "offerTask(Ljava/lang/Runnable;)Z", "!sync/HandoverHooks.give(0)"},
        {"AbstractScheduledEventExecutor", "schedule(L%ScheduledFutureTask;)L%ScheduledFuture;", "!sync/HandoverHooks.give(0)"},
        {"AbstractEventExecutor", "safeExecute(Ljava/lang/Runnable;)V", "sync/HandoverHooks.take(0)"},
        {"AbstractEventExecutor", "runTask(Ljava/lang/Runnable;)V", "sync/HandoverHooks.take(0)"},
    };

    private NettyMethods() {
    }

    /** The methods to weave in a class, or null. Every class of the target is asked, so only names are compared. */
    static Map<String, WovenMethod> of(String name, boolean withPolls) {
        String type = NettyNames.type(name);
        if (type == null) {
            return null;
        }
        String prefix = name.substring(0, name.length() - type.length());
        Map<String, WovenMethod> found = new HashMap<String, WovenMethod>();
        put(found, METHODS, type, prefix);
        if (withPolls) {
            put(found, POLLS, type, prefix);
        }
        return found;
    }

    /** The methods that hand work over, or null. */
    static Map<String, WovenMethod> handover(String name) {
        int end = name.endsWith("Executor") ? name.lastIndexOf(EXECUTORS) + EXECUTORS.length() : 0;
        if (end < EXECUTORS.length()) {
            return null;
        }
        Map<String, WovenMethod> found = new HashMap<String, WovenMethod>();
        put(found, HANDOVER, name.substring(end), name.substring(0, end));
        return found.isEmpty() ? null : found;
    }

    private static void put(Map<String, WovenMethod> into, String[][] rows, String type, String prefix) {
        for (String[] row : rows) {
            if (row[0].equals(type)) {
                into.put(row[1].replace("%", prefix), new WovenMethod(row[2], row.length > 3 ? row[3] : null));
            }
        }
    }
}
