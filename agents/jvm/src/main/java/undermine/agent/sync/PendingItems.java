package undermine.agent.sync;

import undermine.agent.lib.WeakIdentityMap;
import undermine.agent.names.ObjectNames;
import undermine.agent.operations.Subject;
import undermine.agent.record.AgentCore;
import undermine.agent.record.Observer;
import undermine.agent.record.Ops;
import undermine.agent.record.ThreadState;
import undermine.agent.stacks.Stack;

/** Items in queues, and tasks: given and not taken yet. Nothing here keeps them alive. */
public final class PendingItems {
    private static final WeakIdentityMap<Given> PENDING = new WeakIdentityMap<Given>(4096);
    private static final int CHAIN_MAX = 200;

    private PendingItems() {
    }

    /**
     * One entry of an item into a queue. The same item may be in several queues, or several times in one. The oldest
     * comes first.
     */
    private static final class Given {
        final Subject queue;
        final Subject subject;
        final Given next;
        final int count;

        Given(Subject queue, Subject subject, Given next) {
            this.queue = queue;
            this.subject = subject;
            this.next = next;
            count = next == null ? 1 : next.count + 1;
        }
    }

    /**
     * Record that an item is given, before it can be taken. Returns the subject for `withdraw`; null if it isn't
     * recorded.
     */
    public static Subject give(ThreadState state, Subject queue, Object item, Stack stack) {
        if (Ops.give == null || stack == null || item == null) {
            return null;
        }
        Subject subject = Subject.unique("queue", ObjectNames.unique("item"));
        Observer.recordAt(state, Ops.give, subject, stack);
        add(queue, item, subject);
        return subject;
    }

    static void add(Subject queue, Object item, Subject subject) {
        synchronized (PENDING) {
            Given before = PENDING.get(item);
            PENDING.put(item, before != null && before.count >= CHAIN_MAX
                    ? new Given(queue, subject, null) : with(before, queue, subject));
        }
    }

    private static Given with(Given chain, Subject queue, Subject subject) {
        return chain == null ? new Given(queue, subject, null)
                : new Given(chain.queue, chain.subject, with(chain.next, queue, subject));
    }

    /** The item couldn't be put in. */
    public static void withdraw(Object item, Subject subject) {
        if (subject != null) {
            synchronized (PENDING) {
                keep(item, without(PENDING.get(item), subject));
            }
        }
    }

    private static void keep(Object item, Given chain) {
        if (chain == null) {
            PENDING.remove(item);
        } else {
            PENDING.put(item, chain);
        }
    }

    private static Given without(Given chain, Subject subject) {
        if (chain == null || chain.subject == subject) {
            return chain == null ? null : chain.next;
        }
        return new Given(chain.queue, chain.subject, without(chain.next, subject));
    }

    /** The item was taken at this stack. */
    public static void take(ThreadState state, Subject queue, Object item, Stack stack) {
        Subject subject = item == null || stack == null ? null : pop(queue, item);
        if (subject != null) {
            Observer.recordAt(state, Ops.take, subject, stack);
        }
    }

    /** The same for two threads that exchange items, which may be the same object. */
    public static void takeOther(ThreadState state, Subject queue, Object item, Subject own, Stack stack) {
        Subject subject = null;
        if (item != null && stack != null) {
            synchronized (PENDING) {
                for (Given each = PENDING.get(item); each != null && subject == null; each = each.next) {
                    subject = each.queue == queue && each.subject != own ? each.subject : null;
                }
                if (subject != null) {
                    keep(item, without(PENDING.get(item), subject));
                }
            }
        }
        if (subject != null) {
            Observer.recordAt(state, Ops.take, subject, stack);
        }
    }

    static boolean isPending(Subject queue, Object item) {
        return peek(queue, item) != null;
    }

    /** The subject with which this item was given, or null. */
    static Subject peek(Subject queue, Object item) {
        for (Given each = PENDING.get(item); each != null; each = each.next) {
            if (each.queue == queue) {
                return each.subject;
            }
        }
        return null;
    }

    /** The same, and remove it. */
    static Subject pop(Subject queue, Object item) {
        if (peek(queue, item) == null) {
            return null;
        }
        synchronized (PENDING) {
            Subject subject = peek(queue, item);
            if (subject != null) {
                keep(item, without(PENDING.get(item), subject));
            }
            return subject;
        }
    }
}
