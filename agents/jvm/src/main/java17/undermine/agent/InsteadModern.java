package undermine.agent;

import java.io.IOException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.function.Consumer;

/** As InsteadPolls, for methods that came later. What is done with each channel is done within the wait. */
public final class InsteadModern {
    private InsteadModern() {
    }

    public static int select(Selector selector, Consumer<SelectionKey> action) throws IOException {
        return select(selector, action, 0);
    }

    public static int select(Selector selector, Consumer<SelectionKey> action, long milliseconds) throws IOException {
        Call call = InsteadPolls.begin(InsteadPolls.limit(milliseconds));
        int count;
        try {
            count = selector.select(action, milliseconds);
        } catch (Throwable error) {
            throw InsteadPolls.failed(call, error);
        }
        return InsteadPolls.end(call, count);
    }

    public static int selectNow(Selector selector, Consumer<SelectionKey> action) throws IOException {
        Call call = InsteadPolls.begin(InsteadPolls.AT_ONCE);
        int count;
        try {
            count = selector.selectNow(action);
        } catch (Throwable error) {
            throw InsteadPolls.failed(call, error);
        }
        return InsteadPolls.end(call, count);
    }
}
