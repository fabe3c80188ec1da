package example;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.FileOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;

/** A stand-in for your service: PUT and GET /items/KEY. It has a bug: it never reads its log. Replace it by your own. */
public final class Server {
    private final Map<String, String> items = new ConcurrentHashMap<>();
    private final FileOutputStream log;

    private Server(Path folder) throws IOException {
        log = new FileOutputStream(folder.resolve("items.log").toFile(), true);
    }

    public static void main(String[] args) throws IOException {
        Server server = new Server(Files.createDirectories(Path.of(args[2])));
        HttpServer http = HttpServer.create(new InetSocketAddress(args[0], Integer.parseInt(args[1])), 0);
        http.createContext("/", server::handle);
        http.setExecutor(Executors.newFixedThreadPool(4));
        http.start();
    }

    private void handle(HttpExchange request) throws IOException {
        String path = request.getRequestURI().getPath();
        if (request.getRequestMethod().equals("PUT")) {
            put(path, new String(request.getRequestBody().readAllBytes(), StandardCharsets.UTF_8));
            answer(request, 200, "");
        } else if (path.equals("/health") || items.containsKey(path)) {
            answer(request, 200, items.getOrDefault(path, ""));
        } else {
            answer(request, 404, "");
        }
    }

    private synchronized void put(String path, String value) throws IOException {
        log.write((path + "=" + value + "\n").getBytes(StandardCharsets.UTF_8));
        log.getFD().sync();
        items.put(path, value);
    }

    private static void answer(HttpExchange request, int status, String text) throws IOException {
        byte[] data = text.getBytes(StandardCharsets.UTF_8);
        request.sendResponseHeaders(status, data.length == 0 ? -1 : data.length);
        request.getResponseBody().write(data);
        request.close();
    }
}
