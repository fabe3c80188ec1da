package undermine.agent;

import java.io.IOException;
import java.nio.channels.Selector;

/** Called by the target instead of waits for channels: the same is done, and recorded. See Calls. */
public final class InsteadPolls {
    /** The limit of one that does not wait: 0 is one that may wait for ever. */
    static final long AT_ONCE = 1;
    private static final Subject SELECT = new Subject("select", "", false);

    private InsteadPolls() {
    }

    /** One wait under way; a selector of the target's own may ask another one. */
    static Call begin(long limit) {
        ThreadState state = ThreadState.get();
        if (state.polls++ > 0) {
            return null;
        }
        return waiting(state, limit);
    }

    static Call waiting(ThreadState state, long limit) {
        return Watch.begin(state, Ops.poll, SELECT, limit);
    }

    static int end(Call call, int count) {
        ThreadState.get().polls--;
        Watch.end(call, count);
        return count;
    }

    static RuntimeException failed(Call call, Throwable error) {
        ThreadState.get().polls--;
        return Watch.<RuntimeException>failed(call, error);
    }

    static long limit(long milliseconds) {
        return milliseconds == 0 ? 0 : Math.max(AT_ONCE, Watch.limit(milliseconds));
    }

    public static int select(Selector selector) throws IOException {
        Call call = begin(0);
        int count;
        try {
            count = selector.select();
        } catch (Throwable error) {
            throw failed(call, error);
        }
        return end(call, count);
    }

    public static int select(Selector selector, long milliseconds) throws IOException {
        Call call = begin(limit(milliseconds));
        int count;
        try {
            count = selector.select(milliseconds);
        } catch (Throwable error) {
            throw failed(call, error);
        }
        return end(call, count);
    }

    public static int selectNow(Selector selector) throws IOException {
        Call call = begin(AT_ONCE);
        int count;
        try {
            count = selector.selectNow();
        } catch (Throwable error) {
            throw failed(call, error);
        }
        return end(call, count);
    }
}
