package undermine.agent.operations;

import undermine.agent.wire.SharedState;

/** Looks at each occurrence of an operation, before or after it. */
public abstract class OperationListener {
    /** Look at one occurrence; true if the listener has to be acted upon now. */
    public abstract boolean reached(SharedState state, Call call);
}
