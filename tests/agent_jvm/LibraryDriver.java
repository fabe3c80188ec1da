import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import undermine.agent.lib.Blake2b;
import undermine.agent.lib.Json;

/** Runs the agent's own JSON and BLAKE2b on lines from the standard input: `blake2b SIZE HEX` or `json HEX`. */
public final class LibraryDriver {
    private LibraryDriver() {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            byte[] data = bytes(words[words.length - 1]);
            System.out.println(words[0].equals("json") ? again(data) : Blake2b.hex(data, Integer.parseInt(words[1])));
        }
    }

    /** The JSON text after it was read and written; `refused` if it isn't JSON. */
    private static String again(byte[] text) {
        try {
            return Json.write(Json.read(new String(text, StandardCharsets.UTF_8)));
        } catch (IllegalArgumentException refused) {
            return "refused";
        }
    }

    private static byte[] bytes(String hex) {
        byte[] found = new byte[hex.length() / 2];
        for (int i = 0; i < found.length; i++) {
            found[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return found;
    }
}
