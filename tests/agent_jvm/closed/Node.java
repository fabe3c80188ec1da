package closed;

import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.util.concurrent.locks.ReentrantLock;

/** A program in a module. */
public final class Node {
    private final ReentrantLock lock = new ReentrantLock();
    private int term = 4;

    private Node() {
    }

    public static void main(String[] arguments) throws Exception {
        Node node = new Node();
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.send(new DatagramPacket(new byte[node.term], node.term, InetAddress.getLoopbackAddress(), 9));
        }
    }
}
