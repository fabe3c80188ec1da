package undermine.agent.variables;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import undermine.agent.lib.JsonValues;
import undermine.agent.stacks.Sites;
import undermine.agent.wire.SharedState;

/**
 * Reads the variables of this node. Changed values are recorded, and published in the shared state if a trigger asks about
 * them. The weaver reports classes that are loaded, and their instances.
 */
public final class Variables {
    /** The classes at which paths start, by their internal names. */
    private final Map<String, VariableRoot> roots = new LinkedHashMap<String, VariableRoot>();
    private final List<Variable> mine = new ArrayList<Variable>();
    private final AtomicLong turns = new AtomicLong();
    /** The turn in which the published values were read. */
    private long published;
    /** Null: only the variables that the user names are read. */
    private Survey survey;

    public Variables(String node, List<?> descriptions, Map<String, String> addresses) {
        Texts.nameNodes(addresses);
        for (Object each : descriptions) {
            Map<String, Object> description = JsonValues.map(each);
            if (node.equals(description.get("node"))) {
                add(description);
            }
        }
    }

    private void add(Map<String, Object> description) {
        VariablePath path = new VariablePath(JsonValues.text(description.get("path")));
        String internalName = path.className.replace('.', '/');
        VariableRoot root = roots.get(internalName);
        if (root == null) {
            root = new VariableRoot(path.className);
            roots.put(internalName, root);
        }
        mine.add(new Variable(JsonValues.text(description.get("name")), root, path, JsonValues.map(description.get("slots"))));
    }

    /** Read all fields that could be variables, too. `sites` knows which classes are the target's own. */
    public void survey(Sites sites) {
        survey = new Survey(sites);
    }

    public boolean isEmpty() {
        return mine.isEmpty() && survey == null;
    }

    /** True if a path starts at this class (`a/b/Outer$Inner`): the weaver then reports its loader and instances. */
    public boolean watches(String internalName) {
        return internalName != null && (roots.containsKey(internalName) || survey != null && survey.watches(internalName));
    }

    /** A class at which a path starts is being loaded. */
    public void loading(String internalName, ClassLoader loader) {
        VariableRoot root = roots.get(internalName);
        if (root != null) {
            root.loadedBy(loader);
        }
        if (survey != null) {
            survey.loading(internalName, loader);
        }
    }

    /** A constructor of the class with this internal name has ended. The instance isn't kept alive. */
    public void made(String internalName, Object instance) {
        VariableRoot root = roots.get(internalName);
        if (root != null) {
            root.made(instance);
        }
        if (survey != null) {
            survey.made(internalName, instance);
        }
    }

    /**
     * Read all variables, and publish and record those that changed. No lock is held while they are read, since that may
     * load classes. If another thread has published values that it began to read later, these are new enough.
     */
    public void read(SharedState state, Samples samples) {
        readMine(state, samples);
        if (survey != null) {
            survey.look(this, state, samples);
        }
    }

    private void readMine(SharedState state, Samples samples) {
        long turn = turns.incrementAndGet();
        Reading[] readings = new Reading[mine.size()];
        for (int i = 0; i < readings.length; i++) {
            readings[i] = mine.get(i).read();
        }
        synchronized (this) {
            if (turn < published) {
                return;
            }
            published = turn;
            for (int i = 0; i < readings.length; i++) {
                mine.get(i).publish(readings[i], state, samples);
            }
        }
    }
}
