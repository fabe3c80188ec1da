package undermine.agent.process;

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import undermine.agent.lib.Troubles;

/**
 * Kills this node: it signals the keeper, then kills everything at once.
 *
 * Everything is prepared before the tool is asked. Without the native helper the agent can't signal the keeper. It then
 * kills the cgroup, the process group and this process; the tool kills the rest of the node.
 */
public class Death {
    private static final int KILLED = 137;

    private final Troubles troubles;
    private final int keeper;
    private final int group;
    private final String killFile;

    public Death(String cgroup, Troubles troubles) {
        this(number(System.getenv("UNDERMINE_KEEPER")), number(System.getenv("UNDERMINE_PGID")), cgroup, troubles);
    }

    public Death(int keeper, int group, String cgroup, Troubles troubles) {
        this.troubles = troubles;
        this.keeper = keeper;
        this.group = group;
        this.killFile = cgroup.isEmpty() ? "" : cgroup + "/cgroup.kill";
    }

    private static int number(String text) {
        try {
            return text == null ? 0 : Math.max(0, Integer.parseInt(text));
        } catch (NumberFormatException none) {
            return 0;
        }
    }

    /** Prepare everything that is needed to die at once. */
    public Prepared prepare() {
        String trouble = NativeHelper.load();
        if (!trouble.isEmpty()) {
            troubles.note(new IllegalStateException(trouble));
        }
        return new Prepared();
    }

    /** A prepared death: either strike or drop it. */
    public class Prepared {
        private final byte[] path = killFile.getBytes(StandardCharsets.UTF_8);
        private FileOutputStream stream;
        private int pid;
        private boolean isInGroup;

        public Prepared() {
            if (!NativeHelper.isLoaded()) {
                stream = opened();
                readNumbers();
            }
        }

        private FileOutputStream opened() {
            try {
                return killFile.isEmpty() ? null : new FileOutputStream(killFile);
            } catch (IOException notThere) {
                return null;
            }
        }

        private void readNumbers() {
            try {
                ProcessIds self = ProcessIds.read();
                pid = self.pid;
                isInGroup = group > 0 && self.group == group;
            } catch (IOException | RuntimeException unreadable) {
                isInGroup = false;
            }
        }

        /** Kill the node. Doesn't return. */
        public void strike() {
            if (NativeHelper.isLoaded()) {
                NativeHelper.die(keeper, group, path);
            }
            try {
                if (stream != null) {
                    stream.write('1');
                }
            } catch (IOException notOurs) {
                stream = null;
            }
            if (isInGroup) {
                NativeHelper.kill(-(long) group);
            }
            if (pid > 0) {
                NativeHelper.kill(pid);
            }
            Runtime.getRuntime().halt(KILLED);
        }

        public void drop() {
            try {
                if (stream != null) {
                    stream.close();
                }
            } catch (IOException trouble) {
                stream = null;
            }
        }
    }
}
