package undermine.agent.lib;

/** Receives failures inside the agent. */
public interface Troubles {
    void note(Throwable trouble);
}
