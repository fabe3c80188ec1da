package app;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;

/** A node that agrees with others about a leader. Arguments: name, host, port, and `name=host:port` of all nodes. */
public final class Members {
    private final String name;
    private final Map<String, InetSocketAddress> peers = new TreeMap<String, InetSocketAddress>();
    private String leader;
    private int served;

    private Members(String name, String others) {
        this.name = name;
        for (String each : others.split(",")) {
            String[] parts = each.split("[=:]");
            if (!parts[0].equals(name)) {
                peers.put(parts[0], new InetSocketAddress(parts[1], Integer.parseInt(parts[2])));
            }
        }
    }

    public static void main(String[] arguments) throws IOException {
        final Members members = new Members(arguments[0], arguments[3]);
        ServerSocket listener = new ServerSocket();
        listener.setReuseAddress(true);
        listener.bind(new InetSocketAddress(arguments[1], Integer.parseInt(arguments[2])));
        while (true) {
            final Socket client = listener.accept();
            new Thread(new Runnable() {
                @Override
                public void run() {
                    members.serve(client);
                }
            }, "client").start();
        }
    }

    private void serve(Socket client) {
        try (Socket open = client) {
            BufferedReader lines = new BufferedReader(new InputStreamReader(open.getInputStream(), StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                handle(line);
                open.getOutputStream().write("ok\n".getBytes(StandardCharsets.UTF_8));
            }
        } catch (IOException error) {
            System.err.println("client gone: " + error.getMessage());
        }
    }

    /** `lead`: become the leader; `follow NAME`: follow one; `ask`: send `alive` to the others. */
    private synchronized void handle(String line) throws IOException {
        served++;
        String[] words = line.split(" ");
        if (words[0].equals("follow")) {
            leader = words[1];
        } else if (words[0].equals("lead")) {
            leader = name;
            tellAll("follow " + name);
        } else if (words[0].equals("ask")) {
            tellAll("alive");
        }
    }

    private void tellAll(String line) throws IOException {
        for (InetSocketAddress peer : peers.values()) {
            tell(peer, line);
        }
    }

    private static void tell(InetSocketAddress peer, String line) throws IOException {
        try (Socket socket = new Socket(peer.getAddress(), peer.getPort())) {
            socket.getOutputStream().write((line + "\n").getBytes(StandardCharsets.UTF_8));
            socket.getInputStream().read();
        }
    }
}
