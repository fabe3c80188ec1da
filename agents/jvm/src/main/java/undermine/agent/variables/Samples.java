package undermine.agent.variables;

/** Records the values of variables that changed. Only one thread calls this at a time. */
public interface Samples {
    /** A variable has a new text for this key; null: it is absent now. */
    void changed(String name, String key, String text);

    /** The path of a variable has never led anywhere, for this reason. */
    void leadsNowhere(String name, String why);
}
