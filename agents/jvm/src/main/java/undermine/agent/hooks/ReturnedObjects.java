package undermine.agent.hooks;

import java.io.FileDescriptor;
import java.nio.channels.SocketChannel;
import undermine.agent.files.FileHooks;
import undermine.agent.lib.Payload;
import undermine.agent.record.Ops;
import undermine.agent.record.WovenFrame;

/** Learns from the objects that woven methods return. */
public final class ReturnedObjects {
    private ReturnedObjects() {
    }

    /** The number that stands for the object: bytes, or 1 for something, 0 for nothing. */
    static long learn(WovenFrame frame, Object result) {
        if (result == null) {
            frame.handle = null; // nothing was opened or accepted
            return 0;
        }
        if (result instanceof FileDescriptor && frame.call != null) {
            FileHooks.FILES.put(result, frame.call.subject);
            frame.handle = result;
        } else if (frame.side != null) {
            frame.datagram = result;
            return 1;
        } else if (result instanceof SocketChannel) {
            frame.handle = result;
            return 1;
        } else if (result instanceof String) {
            frame.payload = Ops.tokens == null ? null : Payload.of(new Object[] {result}, ((String) result).length());
            return ((String) result).length();
        }
        return frame.size;
    }
}
