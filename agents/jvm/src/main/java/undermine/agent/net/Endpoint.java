package undermine.agent.net;

import java.io.IOException;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketOptions;
import java.nio.channels.Channel;
import java.nio.channels.DatagramChannel;
import java.nio.channels.InterruptibleChannel;
import undermine.agent.faults.Sockets;

/** What can be told of a connection by the object that stands for it, whichever layer that is of. */
public final class Endpoint implements Sockets {
    /** False if who waits for it would be woken: it was closed by another thread, or an interrupt is about to close it. */
    @Override
    public boolean isWaiting(Object thing) {
        return isOpen(thing) && !(thing instanceof InterruptibleChannel && Thread.currentThread().isInterrupted());
    }

    private static boolean isOpen(Object thing) {
        if (thing instanceof Channel) {
            return ((Channel) thing).isOpen();
        }
        if (thing instanceof Socket) {
            return !((Socket) thing).isClosed();
        }
        if (thing instanceof SocketOptions) {
            return timeoutOf((SocketOptions) thing) >= 0;
        }
        return true;
    }

    /** The agent must be at work in this thread. */
    @Override
    public boolean isOfDatagrams(Object thing) {
        return thing instanceof DatagramChannel || NettySocketClass.isOf(thing) && NettySocketClass.of(thing).isOfDatagrams(thing);
    }

    /** How long a receiving may wait; 0: for ever, or not known. */
    @Override
    public int timeoutMs(Object thing) {
        return limitOf(thing);
    }

    /** The same, without an instance. */
    public static int limitOf(Object thing) {
        if (thing instanceof Socket) {
            try {
                return ((Socket) thing).getSoTimeout();
            } catch (IOException closed) {
                return 0;
            }
        }
        return thing instanceof SocketOptions ? Math.max(0, timeoutOf((SocketOptions) thing)) : 0;
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
