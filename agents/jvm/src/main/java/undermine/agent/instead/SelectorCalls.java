package undermine.agent.instead;

import java.io.IOException;
import java.nio.channels.Selector;
import undermine.agent.operations.Call;
import undermine.agent.record.Observer;
import undermine.agent.record.ThreadState;

/** Called by the target instead of waits for channels; each wait is recorded. See ReplacedCalls. */
public final class SelectorCalls {
    /** The limit of a call that doesn't wait. 0 stands for a wait without limit. */
    static final long AT_ONCE = 1;

    private SelectorCalls() {
    }

    /** Begin a wait; null if it is inside another one, since a selector of the target may call another selector. */
    static Call begin(long limit) {
        ThreadState state = ThreadState.get();
        if (state.polls++ > 0) {
            return null;
        }
        return Observer.poll(state, limit);
    }

    static int end(Call call, int count) {
        ThreadState.get().polls--;
        Observer.end(call, count);
        return count;
    }

    static RuntimeException failed(Call call, Throwable error) {
        ThreadState.get().polls--;
        return Observer.<RuntimeException>failed(call, error);
    }

    static long limit(long milliseconds) {
        return milliseconds == 0 ? 0 : Math.max(AT_ONCE, Observer.limit(milliseconds));
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
