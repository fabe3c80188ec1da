package undermine.agent.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** Netty's classes are recognised by the end of their names. */
class NettyMethodsTest {
    @Test
    void classesAreFoundUnderAnyPackageName() {
        for (String prefix : new String[] {"io/netty/channel/", "io/grpc/netty/shaded/io/netty/channel/"}) {
            assertTrue(NettyMethods.of(prefix + "unix/FileDescriptor", false).containsKey("close()V"));
            assertTrue(NettyMethods.of(prefix + "unix/Socket", false).containsKey(
                    "recvFromAddress(JII)L" + prefix + "unix/DatagramSocketAddress;"));
            assertTrue(NettyMethods.of(prefix + "epoll/Native", false).containsKey("epollCtlMod(III)V"));
        }
        assertEquals(4, NettyMethods.of("io/netty/channel/epoll/LinuxSocket", false).size());
    }

    @Test
    void otherClassesAreNotFound() {
        assertNull(NettyMethods.of("java/net/Socket", false));
        assertNull(NettyMethods.of("com/example/unix/Socket", false));
        assertNull(NettyMethods.of("io/netty/channel/unix/SocketWritableByteChannel", false));
    }

    @Test
    void waitsAndHandOverOnlyIfObserved() {
        int without = NettyMethods.of("io/netty/channel/epoll/Native", false).size();
        assertEquals(without + 4, NettyMethods.of("io/netty/channel/epoll/Native", true).size());
        assertEquals(2, NettyMethods.handover("a/io/netty/util/concurrent/AbstractEventExecutor").size());
        assertNull(NettyMethods.handover("io/netty/util/concurrent/DefaultEventExecutor"));
        assertNull(NettyMethods.handover("com/example/Executor"));
    }
}
