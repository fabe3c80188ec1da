package undermine.agent.net;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.net.DatagramSocket;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketOptions;
import java.net.SocketTimeoutException;
import java.nio.channels.Channel;
import java.nio.channels.DatagramChannel;
import java.nio.channels.InterruptibleChannel;
import java.nio.channels.SocketChannel;
import java.util.List;
import javax.net.ssl.SSLSocket;
import undermine.agent.faults.Sockets;

/**
 * Answers questions about a socket, whether it is given as a channel, a socket, a socket implementation or Netty's
 * socket.
 */
public final class Endpoint implements Sockets {
    private static final int LOST_AT_ONCE = 8192;
    private static final int ENDED = -1;

    /** False if a waiting thread would be woken: another thread closed the socket, or an interrupt is about to close it. */
    @Override
    public boolean isWaiting(Object handle) {
        return isOpen(handle) && !(handle instanceof InterruptibleChannel && Thread.currentThread().isInterrupted());
    }

    private static boolean isOpen(Object handle) {
        if (handle instanceof Channel) {
            return ((Channel) handle).isOpen();
        }
        if (handle instanceof Socket) {
            return !((Socket) handle).isClosed();
        }
        if (handle instanceof SocketOptions) {
            return timeoutOf((SocketOptions) handle) >= 0;
        }
        return true;
    }

    /** The caller has set `busy`. */
    @Override
    public boolean isOfDatagrams(Object handle) {
        return handle instanceof DatagramChannel
                || NettySocketClass.isOf(handle) && NettySocketClass.of(handle).isOfDatagrams(handle);
    }

    /** The time limit of a receive in milliseconds; 0: none, or unknown. */
    @Override
    public int timeoutMs(Object handle) {
        return limitOf(handle);
    }

    @Override
    public int connectTimeoutMs(Object handle) {
        Connection known = Connections.get(handle);
        return known == null ? 0 : known.connectTimeoutMs;
    }

    @Override
    public int lose(Object handle) {
        Object descriptor = JdkSockets.descriptorOfAny(handle);
        try {
            if (handle instanceof SSLSocket) {
                InputStream payload = ((SSLSocket) handle).getInputStream();
                boolean isThere = payload.available() > 0 || JdkSockets.isReady(descriptor, false);
                return isThere ? payload.read(new byte[LOST_AT_ONCE]) : 0;
            }
            if (descriptor == null) {
                return ENDED;
            }
            if (!JdkSockets.isReady(descriptor, false)) {
                return 0;
            }
            int count = JdkSockets.stream(descriptor).read(new byte[LOST_AT_ONCE]);
            return count < 0 && isOfDatagrams(handle) ? 1 : count; // an empty datagram
        } catch (SocketTimeoutException nothing) {
            return 0;
        } catch (IOException closed) {
            return ENDED; // the program's own call will raise the error
        }
    }

    @Override
    public void reset(Object handle) {
        JdkSockets.reset(JdkSockets.descriptorOfAny(handle));
    }

    @Override
    public void resetAll(List<?> nodes) {
        for (Object handle : Connections.connectedTo(nodes)) {
            Connections.markReset(handle);
            reset(handle);
        }
    }

    /** Closing a TLS socket sends an encrypted message, which can't be held back. */
    @Override
    public Closeable keepOpen(Object handle) {
        return handle instanceof SSLSocket ? null : JdkSockets.duplicate(JdkSockets.descriptorOfAny(handle));
    }

    /** The same, without an instance. */
    public static int limitOf(Object handle) {
        if (handle instanceof SocketChannel) {
            return limitOf(((SocketChannel) handle).socket());
        }
        if (handle instanceof DatagramChannel) {
            return limitOf(((DatagramChannel) handle).socket());
        }
        if (handle instanceof Socket) {
            try {
                return ((Socket) handle).getSoTimeout();
            } catch (IOException closed) {
                return 0;
            }
        }
        return handle instanceof SocketOptions ? Math.max(0, timeoutOf((SocketOptions) handle)) : 0;
    }

    private static int limitOf(DatagramSocket socket) {
        try {
            return socket.getSoTimeout();
        } catch (IOException closed) {
            return 0;
        }
    }

    /** The time limit; less than 0 if the socket is closed. */
    private static int timeoutOf(SocketOptions socket) {
        try {
            Object value = socket.getOption(SocketOptions.SO_TIMEOUT);
            return value instanceof Integer ? (Integer) value : 0;
        } catch (SocketException closed) {
            return -1;
        }
    }
}
