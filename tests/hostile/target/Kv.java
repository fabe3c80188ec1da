import java.io.BufferedReader;
import java.io.File;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.HashMap;
import java.util.Map;

/** The small server of the integration tests, for the JVM: writes a put before it acknowledges it. */
public class Kv {
    public static void main(String[] words) throws Exception {
        File log = new File(words[2], "log.txt");
        Map<String, String> data = new HashMap<>();
        if (log.exists()) {
            for (String line : Files.readAllLines(log.toPath())) {
                data.put(line.split("=")[0], line.split("=")[1]);
            }
        }
        System.out.println(System.getProperty("user.name"));
        ServerSocket listener = new ServerSocket(Integer.parseInt(words[1]), 50, InetAddress.getByName(words[0]));
        while (true) {
            try (Socket socket = listener.accept()) {
                String line = new BufferedReader(new InputStreamReader(socket.getInputStream())).readLine();
                if (line != null) {
                    socket.getOutputStream().write((answer(line.split(" "), data, log) + "\n").getBytes());
                }
            }
        }
    }

    private static String answer(String[] request, Map<String, String> data, File log) throws Exception {
        if (request[0].equals("get")) {
            return data.getOrDefault(request[1], "none");
        }
        try (FileOutputStream out = new FileOutputStream(log, true)) {
            out.write((request[1] + "=" + request[2] + "\n").getBytes(StandardCharsets.UTF_8));
        }
        data.put(request[1], request[2]);
        return "ok";
    }
}
