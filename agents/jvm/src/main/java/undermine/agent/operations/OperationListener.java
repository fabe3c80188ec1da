package undermine.agent.operations;

import undermine.agent.wire.SharedState;

/** Looks at each occurrence of an operation, before or after it. */
public abstract class OperationListener {
    /** Look at one occurrence; true for a trigger part that must be claimed now. */
    public abstract boolean reached(SharedState state, Call call);
}
