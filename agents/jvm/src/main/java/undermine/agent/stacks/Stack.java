package undermine.agent.stacks;

import java.util.Arrays;
import undermine.agent.lib.Blake2b;
import undermine.agent.lib.Utf8;

/** One distinct call stack: its id in the event file, and its names for matching. */
public final class Stack {
    private static final int DIGEST_SIZE = 6;

    public final int id;
    /** The name of the innermost call site. */
    public final String loc;
    /** True if no frame belongs to the target. */
    public boolean isAlone;
    private final Site[] frames;
    private final int hash;
    private String digest;

    public Stack(int id, Site[] frames, int hash) {
        this.id = id;
        this.frames = frames;
        this.hash = hash;
        loc = frames[0].loc;
    }

    boolean is(Site[] others, int count, int theirHash) {
        if (hash != theirHash || count != frames.length) {
            return false;
        }
        for (int i = 0; i < count; i++) {
            if (frames[i] != others[i]) {
                return false;
            }
        }
        return true;
    }

    public int depth() {
        return frames.length;
    }

    /**
     * The number of the outermost frame inside frame `outside` that is in the site's method; less than 0 if there is
     * none.
     */
    public int find(Site site, int outside) {
        int at = outside - 1;
        while (at >= 0 && !frames[at].isBeside(site)) {
            at--;
        }
        return at;
    }

    /**
     * The frames of the thread when frame `frame` was at this site; if `frame` is less than 0, the innermost frame had
     * called the site's method.
     */
    public Site[] since(Site site, int frame) {
        int outer = isAlone ? frames.length : frame + 1;
        Site[] found = new Site[1 + frames.length - outer];
        found[0] = site;
        System.arraycopy(frames, outer, found, 1, found.length - 1);
        return found;
    }

    Site innermost() {
        return frames[0];
    }

    /** All frames but the innermost. */
    public Site[] outer() {
        return Arrays.copyOfRange(frames, 1, frames.length);
    }

    int hash() {
        return hash;
    }

    /** The names of all frames, innermost first. */
    String[] locs() {
        String[] found = new String[frames.length];
        for (int i = 0; i < found.length; i++) {
            found[i] = frames[i].loc;
        }
        return found;
    }

    /** The innermost function. */
    public String function() {
        return frames[0].function();
    }

    /** The identity of the stack across runs, computed at its first use. */
    public String digest() {
        String found = digest;
        if (found == null) {
            StringBuilder text = new StringBuilder();
            for (Site frame : frames) {
                text.append(text.length() == 0 ? "" : "\n").append(frame.loc);
            }
            found = Blake2b.hex(Utf8.bytes(text.toString()), DIGEST_SIZE);
            digest = found;
        }
        return found;
    }
}
