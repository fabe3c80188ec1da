package undermine.agent.names;

/** Masks the random and counted parts of a name, as protocol/README.md defines it, so that the name recurs in every run. */
public final class Masks {
    private static final int[] UUID = {8, 4, 4, 4, 12};

    private Masks() {
    }

    /** The template of a name. */
    public static String mask(String text) {
        return mask(text, true);
    }

    /** A value that tells operations with the same target apart: short, with random parts masked and numbers kept. */
    public static String content(String text, int most, String mark) {
        String cut = text.length() > most ? text.substring(0, most) : text;
        return mask(cut.replace(mark, " "), false);
    }

    private static String mask(String text, boolean isCounted) {
        StringBuilder found = new StringBuilder(text.length() + 8);
        int at = 0;
        boolean inWord = false; // the previous character is a letter or digit
        while (at < text.length()) {
            char character = text.charAt(at);
            int stop = inWord || !isWord(character) ? 0 : randomPart(text, at);
            if (stop > 0) {
                found.append(text.startsWith("tmp", at) ? "tmp<x>" : "<hex>");
                at = stop;
            } else if (isCounted && isDigit(character)) {
                found.append("<n>");
                at = digitsEnd(text, at);
                inWord = true;
            } else {
                found.append(character);
                inWord = isWord(character);
                at++;
            }
        }
        return found.toString();
    }

    /** The end of the temporary name or hexadecimal word that starts here; 0 if there is none. */
    private static int randomPart(String text, int at) {
        if (text.startsWith("tmp", at)) {
            int stop = temporaryEnd(text, at + 3);
            return stop - at >= 9 ? stop : 0;
        }
        int stop = uuidEnd(text, at);
        if (stop > 0) {
            return stop;
        }
        stop = hexEnd(text, at);
        return stop - at >= 8 && !isWordAt(text, stop) && hasDigit(text, at, stop) ? stop : 0;
    }

    private static int uuidEnd(String text, int at) {
        int stop = at - 1;
        for (int size : UUID) {
            int start = stop + 1;
            if (stop >= at && (stop >= text.length() || text.charAt(stop) != '-')) {
                return 0;
            }
            stop = hexEnd(text, start);
            if (stop - start != size) {
                return 0;
            }
        }
        return isWordAt(text, stop) ? 0 : stop;
    }

    private static int digitsEnd(String text, int at) {
        while (at < text.length() && isDigit(text.charAt(at))) {
            at++;
        }
        return at;
    }

    private static int hexEnd(String text, int at) {
        while (at < text.length() && isHex(text.charAt(at))) {
            at++;
        }
        return at;
    }

    private static int temporaryEnd(String text, int at) {
        while (at < text.length() && isTemporary(text.charAt(at))) {
            at++;
        }
        return at;
    }

    private static boolean hasDigit(String text, int from, int to) {
        for (int at = from; at < to; at++) {
            if (isDigit(text.charAt(at))) {
                return true;
            }
        }
        return false;
    }

    private static boolean isWordAt(String text, int at) {
        return at < text.length() && isWord(text.charAt(at));
    }

    private static boolean isDigit(char character) {
        return character >= '0' && character <= '9';
    }

    private static boolean isHex(char character) {
        return isDigit(character) || character >= 'a' && character <= 'f' || character >= 'A' && character <= 'F';
    }

    private static boolean isTemporary(char character) {
        return isDigit(character) || character >= 'a' && character <= 'z' || character == '_';
    }

    private static boolean isWord(char character) {
        return isDigit(character) || character >= 'a' && character <= 'z' || character >= 'A' && character <= 'Z';
    }
}
