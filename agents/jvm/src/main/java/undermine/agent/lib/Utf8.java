package undermine.agent.lib;

import java.nio.charset.StandardCharsets;

/** Converts texts to UTF-8. */
public final class Utf8 {
    private Utf8() {
    }

    /** Return the text as UTF-8. A lone surrogate, which has no UTF-8, becomes `\ud800` and so on. */
    public static byte[] bytes(String text) {
        return (isWhole(text) ? text : escaped(text)).getBytes(StandardCharsets.UTF_8);
    }

    private static boolean isWhole(String text) {
        for (int at = 0; at < text.length(); at++) {
            if (Character.isSurrogate(text.charAt(at))) {
                if (!isPair(text, at)) {
                    return false;
                }
                at++;
            }
        }
        return true;
    }

    private static boolean isPair(String text, int at) {
        return at + 1 < text.length() && Character.isSurrogatePair(text.charAt(at), text.charAt(at + 1));
    }

    private static String escaped(String text) {
        StringBuilder found = new StringBuilder(text.length() + 16);
        for (int at = 0; at < text.length(); at++) {
            char character = text.charAt(at);
            if (!Character.isSurrogate(character)) {
                found.append(character);
            } else if (isPair(text, at)) {
                found.append(character).append(text.charAt(++at));
            } else {
                found.append("\\u").append(Integer.toHexString(character));
            }
        }
        return found.toString();
    }
}
