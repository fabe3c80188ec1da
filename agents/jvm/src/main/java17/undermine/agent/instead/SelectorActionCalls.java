package undermine.agent.instead;

import java.io.IOException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.function.Consumer;
import undermine.agent.operations.Call;

/** Like SelectorCalls, for methods that JDK 11 added. The action on each channel is run within the wait. */
public final class SelectorActionCalls {
    private SelectorActionCalls() {
    }

    public static int select(Selector selector, Consumer<SelectionKey> action) throws IOException {
        return select(selector, action, 0);
    }

    public static int select(Selector selector, Consumer<SelectionKey> action, long milliseconds) throws IOException {
        Call call = SelectorCalls.begin(SelectorCalls.limit(milliseconds));
        int count;
        try {
            count = selector.select(action, milliseconds);
        } catch (Throwable error) {
            throw SelectorCalls.failed(call, error);
        }
        return SelectorCalls.end(call, count);
    }

    public static int selectNow(Selector selector, Consumer<SelectionKey> action) throws IOException {
        Call call = SelectorCalls.begin(SelectorCalls.AT_ONCE);
        int count;
        try {
            count = selector.selectNow(action);
        } catch (Throwable error) {
            throw SelectorCalls.failed(call, error);
        }
        return SelectorCalls.end(call, count);
    }
}
