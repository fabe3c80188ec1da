package undermine.agent.net;

import java.io.IOException;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketOptions;
import java.nio.channels.Channel;
import java.nio.channels.DatagramChannel;
import java.nio.channels.InterruptibleChannel;
import undermine.agent.faults.Sockets;

/**
 * Answers questions about a socket, whether it is given as a channel, a socket, a socket implementation or Netty's
 * socket.
 */
public final class Endpoint implements Sockets {
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

    /** The same, without an instance. */
    public static int limitOf(Object handle) {
        if (handle instanceof Socket) {
            try {
                return ((Socket) handle).getSoTimeout();
            } catch (IOException closed) {
                return 0;
            }
        }
        return handle instanceof SocketOptions ? Math.max(0, timeoutOf((SocketOptions) handle)) : 0;
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
