package undermine.agent.operations;

import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** One method of the target that the user named as a logical operation. */
public final class LogicalMethod {
    public final String text;
    public final String name;
    /** The simple names of its parameters' types, in parentheses; empty: any parameters. */
    final String takes;
    public final Operation operation;
    public final ArgumentPath kind;
    public final ArgumentPath peer;
    public final ArgumentPath size;
    public final ArgumentPath content;
    /** The name of the external store; null: it is named after the peer or the class. */
    public final ArgumentPath store;
    /** The keys and values of the store. A read has the values that it returns. */
    public final List<ArgumentPath> keys;
    public final List<ArgumentPath> values;
    /** True if kind, size or content come from the returned value: a message that was received. */
    public final boolean isOfResult;
    /** The names of its parameters. */
    public final List<String> parameters;
    /** Its descriptor; empty until it is known. */
    private final String descriptor;
    /** True if its class belongs to the target: then it has a frame of its own in the target's stack. */
    public final boolean isOfTarget;

    public LogicalMethod(Map<String, Object> description, Operation operation) {
        text = String.valueOf(description.get("function"));
        int open = text.indexOf('(');
        takes = open < 0 ? "" : text.substring(open);
        String qualified = open < 0 ? text : text.substring(0, open);
        name = qualified.substring(qualified.lastIndexOf('.') + 1);
        this.operation = operation;
        kind = ArgumentPath.of(description.get("kind"));
        peer = ArgumentPath.of(description.get("peer"));
        size = ArgumentPath.of(description.get("size"));
        content = ArgumentPath.of(description.get("content"));
        store = ArgumentPath.of(description.get("store"));
        keys = ArgumentPath.all(description.get("keys"));
        values = ArgumentPath.all(description.get("values"));
        isOfResult = isOfResult(kind) || isOfResult(size) || isOfResult(content);
        parameters = Collections.emptyList();
        descriptor = "";
        isOfTarget = false;
        if (operation == null || qualified.indexOf(':') < 0 || qualified.lastIndexOf('.') < qualified.indexOf(':')) {
            throw new IllegalArgumentException("logical operation " + text + ": not package:Class.method and its op");
        }
        if (text.startsWith("java.lang:")) {
            throw new IllegalArgumentException("logical operation " + text + ": the agent itself needs java.lang");
        }
    }

    public LogicalMethod(LogicalMethod named, List<String> parameters, String descriptor, boolean isOfTarget) {
        text = named.text;
        name = named.name;
        takes = named.takes;
        operation = named.operation;
        kind = named.kind;
        peer = named.peer;
        size = named.size;
        content = named.content;
        store = named.store;
        keys = named.keys;
        values = named.values;
        isOfResult = named.isOfResult;
        this.parameters = parameters;
        this.descriptor = descriptor;
        this.isOfTarget = isOfTarget;
    }

    /** True if a method with this name and these parameter types is meant. */
    public boolean is(String name, String takes) {
        return this.name.equals(name) && (this.takes.isEmpty() || this.takes.equals(takes));
    }

    /** All paths into its calls. */
    public List<ArgumentPath> paths() {
        List<ArgumentPath> all = new ArrayList<ArgumentPath>(Arrays.asList(kind, peer, size, content, store));
        all.addAll(keys);
        all.addAll(values);
        all.removeAll(Collections.singleton(null));
        return all;
    }

    /** True if it returns values of a store. */
    public boolean isRead() {
        return operation.name.equals("db.read");
    }

    /** The class or, if it is nested, its names as the user writes them: `package:Outer.Inner`. */
    public String ownerText() {
        int open = text.indexOf('(');
        String qualified = open < 0 ? text : text.substring(0, open);
        return qualified.substring(0, qualified.lastIndexOf('.'));
    }

    private static boolean isOfResult(ArgumentPath finder) {
        return finder != null && finder.root.equals(ArgumentPath.RETURNED);
    }

    /** The method itself, to be called again; `type` is the class of an object that has it. */
    public Method find(Class<?> type) throws NoSuchMethodException {
        Class<?> declaring = declaring(type, owner().replace('/', '.'));
        for (Method each : declaring == null ? new Method[0] : declaring.getDeclaredMethods()) {
            String takes = MethodType.methodType(each.getReturnType(), each.getParameterTypes()).toMethodDescriptorString();
            if (each.getName().equals(name) && takes.equals(descriptor)) {
                each.setAccessible(true);
                return each;
            }
        }
        throw new NoSuchMethodException(text);
    }

    /** The class or interface of this name among a class and its ancestors, or null. */
    private static Class<?> declaring(Class<?> type, String name) {
        if (type == null || type.getName().equals(name)) {
            return type;
        }
        Class<?> found = declaring(type.getSuperclass(), name);
        for (Class<?> each : type.getInterfaces()) {
            found = found == null ? declaring(each, name) : found;
        }
        return found;
    }

    /** The class's internal name, with slashes. */
    public String owner() {
        int colon = text.indexOf(':');
        String classes = text.substring(colon + 1);
        int open = classes.indexOf('(');
        classes = open < 0 ? classes : classes.substring(0, open);
        String nested = classes.substring(0, classes.lastIndexOf('.')).replace('.', '$');
        return colon == 0 ? nested : text.substring(0, colon).replace('.', '/') + "/" + nested;
    }
}
