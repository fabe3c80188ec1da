package undermine.agent.variables;

/** Records the values of variables that changed. */
public interface Samples {
    /** A variable has a new text for this key; null: it is absent now. Only one thread calls this at a time. */
    void changed(String name, String key, String text);
}
