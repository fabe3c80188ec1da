package app;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** A node that stores each line that it receives and then acknowledges it. Arguments: host, port, folder. */
public final class Store {
    private Store() {
    }

    public static void main(String[] arguments) throws IOException {
        final File log = new File(arguments[2], "log");
        ServerSocket listener = new ServerSocket();
        listener.setReuseAddress(true);
        listener.bind(new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1])));
        while (true) {
            final Socket client = listener.accept();
            new Thread(new Runnable() {
                @Override
                public void run() {
                    serve(client, log);
                }
            }, "client").start();
        }
    }

    private static void serve(Socket client, File log) {
        try (Socket open = client) {
            BufferedReader lines = new BufferedReader(new InputStreamReader(open.getInputStream(), StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                append(log, line);
                open.getOutputStream().write("ok\n".getBytes(StandardCharsets.UTF_8));
            }
        } catch (IOException error) {
            System.err.println("client gone: " + error.getMessage());
        }
    }

    private static void append(File log, String line) throws IOException {
        try (FileOutputStream out = new FileOutputStream(log, true)) {
            out.write((line + "\n").getBytes(StandardCharsets.UTF_8));
            out.getFD().sync();
        }
    }
}
