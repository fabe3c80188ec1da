package undermine.agent.hooks;

import java.lang.reflect.InvocationTargetException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import undermine.agent.faults.SystemErrors;
import undermine.agent.lib.Buffers;
import undermine.agent.lib.Unchecked;
import undermine.agent.names.Masks;
import undermine.agent.operations.ArgumentPath;
import undermine.agent.operations.Call;
import undermine.agent.operations.EnclosingOperation;
import undermine.agent.operations.LogicalMethod;
import undermine.agent.operations.Operation;
import undermine.agent.operations.StoreCall;
import undermine.agent.operations.Subject;
import undermine.agent.process.Clock;
import undermine.agent.record.AgentCore;
import undermine.agent.record.MethodEntry;
import undermine.agent.record.Ops;
import undermine.agent.record.Recorder;
import undermine.agent.record.ThreadState;
import undermine.agent.record.WovenFrame;

/**
 * Logical operations: methods of the target that the user named, with the kind of their message and their peer.
 *
 * Operations with the same peer that such a method does in the same thread are part of it. Others are recorded as usual.
 */
public final class LogicalOperations {
    private static final int TEXT_MAX = 200;
    private static final String PEER = "peer:";
    private static volatile LogicalMethod[] methods = {};
    private static final Map<String, List<LogicalMethod>> BY_CLASS = new HashMap<String, List<LogicalMethod>>();

    private LogicalOperations() {
    }

    public static void install(AgentCore agent) {
        List<LogicalMethod> found = new ArrayList<LogicalMethod>();
        for (Map<String, Object> description : agent.config.operations) {
            try {
                Operation operation = agent.table.operation(String.valueOf(description.get("op")));
                LogicalMethod method = new LogicalMethod(description, operation);
                found.add(method);
                List<LogicalMethod> ofClass = BY_CLASS.get(method.owner());
                if (ofClass == null) {
                    ofClass = new ArrayList<LogicalMethod>();
                    BY_CLASS.put(method.owner(), ofClass);
                }
                ofClass.add(method);
            } catch (RuntimeException trouble) {
                agent.note(trouble);
            }
        }
        methods = found.toArray(new LogicalMethod[0]);
    }

    /** Register a method that is about to be woven, with the names of its parameters; returns its number. */
    public static synchronized int woven(
            LogicalMethod named, List<String> parameters, String descriptor, int count, boolean isOfTarget) {
        for (ArgumentPath finder : named.paths()) {
            if (!finder.startsIn(parameters, count)) {
                throw new IllegalArgumentException("logical operation " + named.text + ": no parameter " + finder.root);
            }
        }
        LogicalMethod[] longer = Arrays.copyOf(methods, methods.length + 1);
        longer[methods.length] = new LogicalMethod(named, parameters, descriptor, isOfTarget);
        methods = longer;
        return longer.length - 1;
    }

    /** All methods that the user named. */
    public static List<LogicalMethod> all() {
        List<LogicalMethod> found = new ArrayList<LogicalMethod>();
        for (List<LogicalMethod> each : BY_CLASS.values()) {
            found.addAll(each);
        }
        return found;
    }

    /** The named methods of this class, or null. */
    public static List<LogicalMethod> of(String className) {
        return BY_CLASS.isEmpty() ? null : BY_CLASS.get(className);
    }

    // --- called by woven code

    public static boolean enter(int number, Object self, Object[] arguments) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        LogicalMethod method = methods[number];
        AgentCore agent = AgentCore.current;
        frame.named = method;
        if (agent == null || agent.off || state.busy || state.inside > 0) {
            return false;
        }
        frame.outer = state.enclosing;
        frame.arguments = arguments;
        frame.handle = self;
        if (method.isOfResult) {
            frame.since = Clock.now();
            String peer = method.peer == null ? "" : peerOf(agent, state, method, frame, null)[0];
            state.enclosing = new EnclosingOperation("msg.recv", peer);
            return false;
        }
        Throwable refused = begin(agent, state, frame, null);
        if (refused != null) {
            Unchecked.<RuntimeException>raise(refused);
        }
        Call call = frame.call;
        if (call != null && call.isLost) {
            state.pop();
            return true;
        }
        state.wantsData = call != null && call.change != null;
        return state.wantsData;
    }

    /** Record the beginning, and the end too if the message gets lost; returns the injected error, or null. */
    private static Throwable begin(AgentCore agent, ThreadState state, WovenFrame frame, Object result) {
        LogicalMethod method = frame.named;
        String[] peer = peerOf(agent, state, method, frame, result);
        Subject subject = subject(agent, state, frame, peer, result);
        if (subject == null || Recorder.seen(agent, state, method.operation, subject) == null) {
            return null;
        }
        long size = sizeOf(found(agent, state, method.size, frame, result));
        Call call = Recorder.begin(agent, state, method.operation, subject, size, frame.since, null, false, method.isOfTarget);
        if (call == null) {
            return null;
        }
        if (call.error != null) {
            Throwable error = call.error;
            Recorder.leave(agent, state, call, 0, SystemErrors.nameOf(error));
            return error;
        }
        frame.call = call;
        if (call.isLost) {
            Recorder.leave(agent, state, call, 0, MethodEntry.LOST);
            return call.error;
        }
        if (!method.isOfResult) {
            state.enclosing = new EnclosingOperation(method.operation.name, method.peer == null ? "" : peer[0]);
        }
        return null;
    }

    /** The method returns; the result is what it returns, or has to return instead. */
    static Object left(ThreadState state, WovenFrame frame, Object result) {
        return end(state, frame, result, null);
    }

    static void failed(ThreadState state, WovenFrame frame, Throwable error) {
        end(state, frame, null, error);
    }

    private static Object end(ThreadState state, WovenFrame frame, Object result, Throwable error) {
        Throwable instead;
        LogicalMethod method = frame.named;
        Object self = frame.handle;
        Object[] arguments = frame.arguments;
        Call call = null;
        try {
            instead = arguments == null ? null : ended(AgentCore.current, state, frame, result, error);
            call = frame.call;
        } finally {
            state.pop();
        }
        if (instead != null) {
            Unchecked.<RuntimeException>raise(instead);
        }
        if (call == null || error != null || !method.isOfResult) {
            return result;
        }
        return call.isLost ? next(method, self, arguments, result) : call.change == null ? result
                : ChangedData.received(AgentCore.current, state, call, result);
    }

    /** A received message got lost: wait for the next one. `self` is the object, or the class if the method is static. */
    private static Object next(LogicalMethod method, Object self, Object[] arguments, Object lost) {
        try {
            boolean isStatic = self instanceof Class;
            return method.find(isStatic ? (Class<?>) self : self.getClass()).invoke(isStatic ? null : self, arguments);
        } catch (InvocationTargetException raised) {
            Unchecked.<RuntimeException>raise(raised.getCause());
        } catch (ReflectiveOperationException | RuntimeException unknown) {
            AgentCore.current.note(unknown);
        }
        return lost;
    }

    /** Record the end; returns the injected error, or null. */
    private static Throwable ended(AgentCore agent, ThreadState state, WovenFrame frame, Object result, Throwable error) {
        state.enclosing = frame.outer;
        Throwable refused = frame.named.isOfResult ? begin(agent, state, frame, result) : null;
        if (frame.call == null || frame.call.isLost) {
            return refused;
        }
        if (frame.payload != null) {
            ChangedData.end(agent, state, frame, 0);
        }
        Recorder.leave(agent, state, frame.call, 0, error == null ? null : SystemErrors.nameOf(error));
        if (error == null && frame.call.error == null) {
            answered(agent, state, frame, result);
        }
        return frame.call.error;
    }

    /** Record the values that a store returned, right after the operation; the size is the operation's number. */
    private static void answered(AgentCore agent, ThreadState state, WovenFrame frame, Object result) {
        LogicalMethod method = frame.named;
        if (Ops.got == null || frame.asked == null || !method.isRead() || method.values.isEmpty()) {
            return;
        }
        List<String> values = shown(agent, state, method.values, frame, result);
        state.busy = true;
        try {
            Subject subject = new Subject(frame.call.subject.target, frame.asked.textOf(values), false);
            Recorder.recordAt(agent, state, agent.cursor(state), Ops.got, subject, frame.call.stack, frame.call.seq, 0, 0);
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = false;
        }
    }

    // --- its subject

    private static Object found(AgentCore agent, ThreadState state, ArgumentPath finder, WovenFrame frame, Object result) {
        if (finder == null) {
            return null;
        }
        state.busy = true;
        try {
            return finder.find(frame.named.parameters, frame.handle, frame.arguments, result);
        } catch (Throwable trouble) {
            agent.note(trouble);
            return null;
        } finally {
            state.busy = false;
        }
    }

    private static Subject subject(AgentCore agent, ThreadState state, WovenFrame frame, String[] peer, Object result) {
        LogicalMethod method = frame.named;
        String kind = method.kind == null ? method.name : kindText(found(agent, state, method.kind, frame, result));
        kind = kind.length() > TEXT_MAX ? kind.substring(0, TEXT_MAX) : kind;
        Object told = found(agent, state, method.content, frame, result);
        StoreCall asked = frame.asked = asked(agent, state, frame, kind, peer[0], result);
        state.busy = true;
        try {
            String resource = asked != null ? asked.text() : peer[1].isEmpty() ? kind : kind + " " + peer[1];
            String target = Masks.mask(kind) + " " + peer[0];
            String content = told != null ? kindText(told) : asked != null ? asked.content() : "";
            content = Masks.content(content, Subject.CONTENT_MAX, Subject.CONTENT_MARK);
            return new Subject(target, resource, false, content, agent.config.usesContent(method.operation.name, target));
        } catch (Throwable trouble) {
            agent.note(trouble);
            return null;
        } finally {
            state.busy = false;
        }
    }

    /** The request to an external store; null if the user named no keys, or the call has none. */
    private static StoreCall asked(
            AgentCore agent, ThreadState state, WovenFrame frame, String kind, String peer, Object result) {
        LogicalMethod method = frame.named;
        List<String> keys = shown(agent, state, method.keys, frame, result);
        if (keys.isEmpty()) {
            return null;
        }
        List<ArgumentPath> written = method.isRead() ? Collections.<ArgumentPath>emptyList() : method.values;
        String store = method.store == null ? ""
                : String.join(":", shown(agent, state, Collections.singletonList(method.store), frame, result));
        if (store.isEmpty()) {
            store = peer.startsWith(PEER) ? peer.substring(PEER.length()) : method.ownerText();
        }
        return new StoreCall(store, kind, keys, shown(agent, state, written, frame, result));
    }

    /** The texts of the values at these paths. */
    private static List<String> shown(
            AgentCore agent, ThreadState state, List<ArgumentPath> finders, WovenFrame frame, Object result) {
        List<Object> found = new ArrayList<Object>(finders.size());
        for (ArgumentPath finder : finders) {
            found.add(found(agent, state, finder, frame, result));
        }
        state.busy = true;
        try {
            return StoreCall.shown(found);
        } catch (Throwable trouble) {
            agent.note(trouble);
            return Collections.emptyList();
        } finally {
            state.busy = false;
        }
    }

    /** A short name for the kind of a message: its text, its number, or the name of its class. */
    static String kindText(Object value) {
        if (value == null) {
            return "?";
        }
        if (value instanceof Enum) {
            return ((Enum<?>) value).name();
        }
        if (value instanceof CharSequence || value instanceof Number || value instanceof Boolean
                || value instanceof Character) {
            return value.toString();
        }
        if (value instanceof byte[]) {
            return new String((byte[]) value, StandardCharsets.UTF_8);
        }
        Class<?> type = value instanceof Class ? (Class<?>) value : value.getClass();
        return type.getSimpleName();
    }

    private static long sizeOf(Object value) {
        if (value instanceof Number) {
            return ((Number) value).longValue();
        }
        if (value instanceof CharSequence) {
            return ((CharSequence) value).length();
        }
        return value instanceof Collection ? ((Collection<?>) value).size() : Buffers.length(value);
    }

    /** `peer:NODE` or `other`, and the address or name as text. */
    private static String[] peerOf(AgentCore agent, ThreadState state, LogicalMethod method, WovenFrame frame, Object result) {
        Object peer = found(agent, state, method.peer, frame, result);
        state.busy = true;
        try {
            return peerOf(agent, peer);
        } catch (Throwable trouble) {
            agent.note(trouble);
            return new String[] {"other", ""};
        } finally {
            state.busy = false;
        }
    }

    private static String[] peerOf(AgentCore agent, Object given) throws java.io.IOException {
        Object peer = given;
        if (peer instanceof Socket) {
            peer = ((Socket) peer).getRemoteSocketAddress();
        } else if (peer instanceof SocketChannel) {
            peer = ((SocketChannel) peer).getRemoteAddress();
        }
        if (peer instanceof InetSocketAddress && !((InetSocketAddress) peer).isUnresolved()) {
            Subject subject = agent.peers.connected((InetSocketAddress) peer);
            return new String[] {subject.target, subject.resource};
        }
        String text = peer instanceof InetAddress ? ((InetAddress) peer).getHostAddress()
                : peer == null ? "" : peer.toString();
        if (agent.config.nodes.contains(text)) {
            return new String[] {"peer:" + text, text};
        }
        String node = agent.config.addresses.get(text.replace("localhost", "127.0.0.1"));
        node = node == null ? agent.config.hosts.get(text) : node;
        return new String[] {node == null ? "other" : "peer:" + node, text.length() > TEXT_MAX ? "" : text};
    }
}
