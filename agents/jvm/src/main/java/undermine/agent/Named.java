package undermine.agent;

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

/**
 * Logical operations: methods of the target that the user named, with the kind of their message and the peer.
 *
 * What such a method does below with the same peer is part of it, in the same thread; all else is seen as ever.
 */
public final class Named {
    private static final int TEXT_MAX = 200;
    private static volatile Method[] methods = {};
    private static final Map<String, List<Method>> BY_CLASS = new HashMap<String, List<Method>>();

    private Named() {
    }

    /** One method that the user named. */
    static final class Method {
        final String text;
        final String name;
        /** Simple names of its parameters' types, in parentheses; or nothing: whatever it takes. */
        final String takes;
        final Operation operation;
        final Finder kind;
        final Finder peer;
        final Finder size;
        /** Known only from what it returns: a message that has come. */
        final boolean isOfResult;
        /** The names of its parameters. */
        final List<String> parameters;
        /** True if its class is the target's: then it is a frame of the target's itself. */
        final boolean isTargets;

        Method(Map<String, Object> description, Table table) {
            text = String.valueOf(description.get("function"));
            int open = text.indexOf('(');
            takes = open < 0 ? "" : text.substring(open);
            String qualified = open < 0 ? text : text.substring(0, open);
            name = qualified.substring(qualified.lastIndexOf('.') + 1);
            operation = table.operation(String.valueOf(description.get("op")));
            kind = Finder.of(description.get("kind"));
            peer = Finder.of(description.get("peer"));
            size = Finder.of(description.get("size"));
            isOfResult = isOfResult(kind) || isOfResult(size);
            parameters = Collections.emptyList();
            isTargets = false;
            if (operation == null || qualified.indexOf(':') < 0 || qualified.lastIndexOf('.') < qualified.indexOf(':')) {
                throw new IllegalArgumentException("logical operation " + text + ": not package:Class.method and its op");
            }
            if (text.startsWith("java.lang:")) {
                throw new IllegalArgumentException("logical operation " + text + ": the agent itself needs java.lang");
            }
        }

        private Method(Method named, List<String> parameters, boolean isTargets) {
            text = named.text;
            name = named.name;
            takes = named.takes;
            operation = named.operation;
            kind = named.kind;
            peer = named.peer;
            size = named.size;
            isOfResult = named.isOfResult;
            this.parameters = parameters;
            this.isTargets = isTargets;
        }

        /** True if this is such a method: by name and, where they were given, the types it takes. */
        boolean is(String name, String takes) {
            return this.name.equals(name) && (this.takes.isEmpty() || this.takes.equals(takes));
        }

        private static boolean isOfResult(Finder finder) {
            return finder != null && finder.root.equals(Finder.RETURNED);
        }

        /** The class's name as in class files. */
        String owner() {
            int colon = text.indexOf(':');
            String classes = text.substring(colon + 1);
            int open = classes.indexOf('(');
            classes = open < 0 ? classes : classes.substring(0, open);
            String nested = classes.substring(0, classes.lastIndexOf('.')).replace('.', '$');
            return colon == 0 ? nested : text.substring(0, colon).replace('.', '/') + "/" + nested;
        }
    }

    static void install(Agent agent) {
        List<Method> found = new ArrayList<Method>();
        for (Map<String, Object> description : agent.config.operations) {
            try {
                Method method = new Method(description, agent.table);
                found.add(method);
                List<Method> ofClass = BY_CLASS.get(method.owner());
                if (ofClass == null) {
                    ofClass = new ArrayList<Method>();
                    BY_CLASS.put(method.owner(), ofClass);
                }
                ofClass.add(method);
            } catch (RuntimeException trouble) {
                agent.note(trouble);
            }
        }
        methods = found.toArray(new Method[0]);
    }

    /** The number of a method that is about to be woven; its parameters have these names. */
    static synchronized int woven(Method named, List<String> parameters, int count, boolean isTargets) {
        for (Finder finder : new Finder[] {named.kind, named.peer, named.size}) {
            if (finder != null && !finder.startsIn(parameters, count)) {
                throw new IllegalArgumentException("logical operation " + named.text + ": no parameter " + finder.root);
            }
        }
        Method[] longer = Arrays.copyOf(methods, methods.length + 1);
        longer[methods.length] = new Method(named, parameters, isTargets);
        methods = longer;
        return longer.length - 1;
    }

    /** The named methods of this class, or null. */
    static List<Method> of(String className) {
        return BY_CLASS.isEmpty() ? null : BY_CLASS.get(className);
    }

    // --- called by woven code

    public static boolean enter(int number, Object self, Object[] arguments) {
        ThreadState state = ThreadState.get();
        Frame frame = state.top();
        Method method = methods[number];
        Agent agent = Agent.current;
        frame.named = method;
        if (agent == null || agent.off || state.busy || state.inside > 0) {
            return false;
        }
        frame.outer = state.scope;
        frame.arguments = arguments;
        frame.thing = self;
        if (method.isOfResult) {
            frame.since = Clock.now();
            state.scope = new Scope("msg.recv", method.peer == null ? "" : peerOf(agent, state, method, frame, null)[0]);
            return false;
        }
        Throwable refused = begin(agent, state, frame, null);
        if (refused != null) {
            Core.<RuntimeException>raise(refused);
        }
        return false;
    }

    /** Record the beginning and decide; what is to be raised instead, or null. */
    private static Throwable begin(Agent agent, ThreadState state, Frame frame, Object result) {
        Method method = frame.named;
        String[] peer = peerOf(agent, state, method, frame, result);
        Subject subject = subject(agent, state, frame, peer, result);
        if (subject == null || Core.seen(agent, state, method.operation, subject) == null) {
            return null;
        }
        long size = sizeOf(found(agent, state, method.size, frame, result));
        Call call = Core.begin(agent, state, method.operation, subject, size, frame.since, null, false, method.isTargets);
        if (call == null) {
            return null;
        }
        if (call.error != null) {
            Throwable error = call.error;
            Core.leave(agent, state, call, 0, Errors.nameOf(error));
            return error;
        }
        frame.call = call;
        if (!method.isOfResult) {
            state.scope = new Scope(method.operation.name, method.peer == null ? "" : peer[0]);
        }
        return null;
    }

    static void left(ThreadState state, Frame frame, Object result) {
        end(state, frame, result, null);
    }

    static void failed(ThreadState state, Frame frame, Throwable error) {
        end(state, frame, null, error);
    }

    private static void end(ThreadState state, Frame frame, Object result, Throwable error) {
        Throwable instead;
        try {
            instead = frame.arguments == null ? null : ended(Agent.current, state, frame, result, error);
        } finally {
            state.pop();
        }
        if (instead != null) {
            Core.<RuntimeException>raise(instead);
        }
    }

    /** What is to be raised instead, or null. */
    private static Throwable ended(Agent agent, ThreadState state, Frame frame, Object result, Throwable error) {
        state.scope = frame.outer;
        Throwable refused = frame.named.isOfResult ? begin(agent, state, frame, result) : null;
        if (frame.call == null) {
            return refused;
        }
        Core.leave(agent, state, frame.call, 0, error == null ? null : Errors.nameOf(error));
        return frame.call.error;
    }

    // --- what it is

    private static Object found(Agent agent, ThreadState state, Finder finder, Frame frame, Object result) {
        if (finder == null) {
            return null;
        }
        state.busy = true;
        try {
            return finder.find(frame.named.parameters, frame.thing, frame.arguments, result);
        } catch (Throwable trouble) {
            agent.note(trouble);
            return null;
        } finally {
            state.busy = false;
        }
    }

    private static Subject subject(Agent agent, ThreadState state, Frame frame, String[] peer, Object result) {
        Method method = frame.named;
        String kind = method.kind == null ? method.name : kindText(found(agent, state, method.kind, frame, result));
        kind = kind.length() > TEXT_MAX ? kind.substring(0, TEXT_MAX) : kind;
        state.busy = true;
        try {
            String resource = peer[1].isEmpty() ? kind : kind + " " + peer[1];
            return new Subject(Masks.mask(kind) + " " + peer[0], resource, false);
        } catch (Throwable trouble) {
            agent.note(trouble);
            return null;
        } finally {
            state.busy = false;
        }
    }

    /** A short name for the kind of a message: its text, its number, the name of its class. */
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
        return value instanceof Collection ? ((Collection<?>) value).size() : FileHooks.length(value);
    }

    /** `peer:NODE` or `other`, and the address or name as text. */
    private static String[] peerOf(Agent agent, ThreadState state, Method method, Frame frame, Object result) {
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

    private static String[] peerOf(Agent agent, Object given) throws java.io.IOException {
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
