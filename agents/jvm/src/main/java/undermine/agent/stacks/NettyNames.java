package undermine.agent.stacks;

/**
 * Recognises the classes of Netty's native transport (epoll) by their names.
 *
 * Libraries ship Netty under package names of their own, so only the end of a class's name counts.
 */
public final class NettyNames {
    public static final String DESCRIPTOR = "unix/FileDescriptor";
    public static final String SOCKET = "unix/Socket";
    public static final String LINUX = "epoll/LinuxSocket";
    public static final String NATIVE = "epoll/Native";
    private static final String[] CLASSES = {DESCRIPTOR, SOCKET, LINUX, NATIVE};
    private static final String CHANNEL = "/channel/";

    private NettyNames() {
    }

    /** The end of the name of one of these classes (given as `a/b/C`); null for all others. */
    public static String type(String name) {
        for (String each : CLASSES) {
            if (name.endsWith(each) && name.endsWith(CHANNEL + each)) {
                return each;
            }
        }
        return null;
    }
}
