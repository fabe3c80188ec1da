package undermine.agent.variables;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import undermine.agent.lib.Blake2b;
import undermine.agent.lib.JsonValues;
import undermine.agent.operations.Call;
import undermine.agent.operations.OperationListener;
import undermine.agent.wire.SharedState;

/**
 * Reads the variables that triggers ask about, and publishes changed ones in the shared state.
 *
 * It is a listener before all trigger parts, so that they see current values. Any failure on the way to a variable, also
 * in code of the target, makes it absent. The weaver reports classes that are loaded, and their instances.
 */
public final class Variables extends OperationListener {
    private static final int TEXT_MAX = 120;
    private static final int HASH_BYTES = 4;
    private static final int TRIES_MAX = 100;

    private final Map<String, VariableRoot> roots = new LinkedHashMap<String, VariableRoot>();
    private final List<Variable> mine = new ArrayList<Variable>();
    private final AtomicLong turns = new AtomicLong();
    /** The turn in which the published values were read. */
    private long published;

    public Variables(String node, List<?> descriptions) {
        for (Object each : descriptions) {
            Map<String, Object> description = JsonValues.map(each);
            Object slot = JsonValues.map(description.get("slots")).get("");
            if (node.equals(description.get("node")) && slot != null) {
                add(JsonValues.number(slot), JsonValues.text(description.get("path")));
            }
        }
    }

    private void add(int slot, String text) {
        VariablePath path = new VariablePath(text);
        VariableRoot root = roots.get(path.className);
        if (root == null) {
            root = new VariableRoot(path.className);
            roots.put(path.className, root);
        }
        mine.add(new Variable(slot, root, path));
    }

    public boolean isEmpty() {
        return mine.isEmpty();
    }

    /** True if a path starts at this class (`a/b/Outer$Inner`): the weaver then reports its loader and instances. */
    public boolean watches(String internalName) {
        return internalName != null && !roots.isEmpty() && roots.containsKey(internalName.replace('/', '.'));
    }

    /** A class at which a path starts is being loaded. */
    public void loading(String internalName, ClassLoader loader) {
        VariableRoot root = roots.get(internalName.replace('/', '.'));
        if (root != null) {
            root.loadedBy(loader);
        }
    }

    /** A constructor of the class with this internal name has ended. The instance isn't kept alive. */
    public void made(String internalName, Object instance) {
        VariableRoot root = roots.get(internalName.replace('/', '.'));
        if (root != null) {
            root.made(instance);
        }
    }

    /** Publish changed values. The caller has set `busy`. */
    @Override
    public boolean reached(SharedState state, Call call) {
        publish(state);
        return false;
    }

    /**
     * Publish changed values. Reading may run code of the target, so no lock is held. If another thread has published
     * values that it began to read later, the values are read again.
     */
    void publish(SharedState state) {
        String[] texts = new String[mine.size()];
        for (int tries = 0; tries < TRIES_MAX; tries++) {
            long turn = turns.incrementAndGet();
            for (int i = 0; i < texts.length; i++) {
                texts[i] = mine.get(i).read();
            }
            if (publish(state, texts, turn)) {
                return;
            }
        }
    }

    /** False if values of a later turn are published already. */
    private synchronized boolean publish(SharedState state, String[] texts, long turn) {
        if (turn < published) {
            return false;
        }
        published = turn;
        for (int i = 0; i < texts.length; i++) {
            Variable variable = mine.get(i);
            if (!variable.isPublished || !same(texts[i], variable.published)) {
                state.publish(variable.slot, texts[i]);
                variable.published = texts[i];
                variable.isPublished = true;
            }
        }
        return true;
    }

    private static boolean same(String one, String other) {
        return one == null ? other == null : one.equals(other);
    }

    /** The text of a plain value, short enough for a slot; null for other values. */
    static String textOf(Object value) {
        Object plain = VariablePath.unwrapped(value);
        if (plain == null || plain instanceof String || plain instanceof Boolean || plain instanceof Character
                || plain instanceof AtomicBoolean) {
            return fitting(String.valueOf(plain));
        }
        if (plain instanceof Enum) {
            return fitting(((Enum<?>) plain).name());
        }
        boolean isNumber = plain instanceof Number && plain.getClass().getName().startsWith("java.");
        return isNumber ? fitting(plain.toString()) : null;
    }

    private static String fitting(String text) {
        byte[] data = text.getBytes(StandardCharsets.UTF_8);
        if (data.length <= TEXT_MAX) {
            return text;
        }
        int end = TEXT_MAX - 1 - 2 * HASH_BYTES;
        while ((data[end] & 0xC0) == 0x80) { // not within a character
            end--;
        }
        return new String(data, 0, end, StandardCharsets.UTF_8) + "~" + Blake2b.hex(data, HASH_BYTES);
    }

    /** A slot with the root and the path of its variable. */
    private static final class Variable {
        final int slot;
        final VariableRoot root;
        final VariablePath path;
        String published;
        boolean isPublished; // false before the first publication, also of an absent value

        Variable(int slot, VariableRoot root, VariablePath path) {
            this.slot = slot;
            this.root = root;
            this.path = path;
        }

        String read() {
            try {
                return textOf(path.read(root));
            } catch (Exception | LinkageError | StackOverflowError trouble) {
                return null;
            }
        }
    }
}
