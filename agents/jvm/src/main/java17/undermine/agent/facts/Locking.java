package undermine.agent.facts;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.JumpInsnNode;
import undermine.agent.values.AbstractValue;

/**
 * Finds critical regions: from where a lock is taken to where it is released, on all ways through a method.
 *
 * A method that returns with a lock counts as taking it in its callers, and a method that releases a lock that it didn't take
 * counts as releasing it.
 */
final class Locking {
    private static final String LOCKS = "java/util/concurrent/locks/";
    private static final String SEMAPHORE = "java/util/concurrent/Semaphore";
    private static final Set<String> TAKES = Set.of("lock", "lockInterruptibly", "tryLock");
    private static final Set<String> STAMPS = Set.of("readLock", "writeLock", "readLockInterruptibly", "writeLockInterruptibly",
            "tryReadLock", "tryWriteLock");
    private static final Set<String> PERMITS = Set.of("acquire", "acquireUninterruptibly", "tryAcquire");

    /** An instruction that takes or releases a lock. A permit that is released elsewhere is a signal, not a lock. */
    private record Action(int at, String key, String text, boolean isTaking, boolean isMonitor, boolean isPermit) {
        boolean isFor(Action taken) {
            return isMonitor == taken.isMonitor && (key.equals(taken.key) || key.isEmpty() || taken.key.isEmpty());
        }
    }

    private final TargetClasses classes;
    private final CallGraph graph;
    private final Map<MethodCode, List<Action>> actions = new HashMap<>();
    private final List<Region> found = new ArrayList<>();

    Locking(TargetClasses classes, CallGraph graph) {
        this.classes = classes;
        this.graph = graph;
    }

    List<Region> regions() {
        for (MethodCode method : classes.methods) {
            List<Action> own = own(method);
            if (!own.isEmpty()) {
                actions.put(method, own);
            }
        }
        addThoseOfCallees();
        for (MethodCode method : classes.methods) {
            if (method.is(Opcodes.ACC_SYNCHRONIZED)) {
                String lock = method.is(Opcodes.ACC_STATIC)
                        ? method.owner.replace('/', '.') + ".class" : "this of " + method.owner.replace('/', '.');
                found.add(new Region("critical", lock, method.file + ":" + method.firstLine(),
                        "in the synchronized method " + method.shortName(), method, null));
            }
            for (Action taken : actions.getOrDefault(method, List.of())) {
                if (taken.isTaking && !(taken.isPermit && releases(method, taken).isEmpty())) {
                    found.add(region(method, taken));
                }
            }
        }
        return found;
    }

    private Region region(MethodCode method, Action taken) {
        BitSet held = held(method, taken);
        releases(method, taken).stream().forEach(held::clear);
        String key = taken.key.isEmpty() ? method.where(taken.at) : taken.key;
        return new Region("critical", key, method.where(taken.at), "under " + taken.text, method, method.ordinals(held));
    }

    /** All instructions that may be executed while the lock is held. */
    private BitSet held(MethodCode method, Action taken) {
        return method.flow.after(starts(method, taken), releases(method, taken));
    }

    private BitSet releases(MethodCode method, Action taken) {
        BitSet ends = new BitSet();
        for (Action each : actions.getOrDefault(method, List.of())) {
            if (!each.isTaking && each.isFor(taken)) {
                ends.set(each.at);
            }
        }
        return ends;
    }

    /** Where the lock is held first: after `if (lock.tryLock())`, only where the test succeeds. */
    private static int[] starts(MethodCode method, Action taken) {
        int at = taken.at + 1;
        while (at < method.flow.size() && method.node.instructions.get(at).getOpcode() < 0) {
            at++;
        }
        AbstractInsnNode test = at < method.flow.size() ? method.node.instructions.get(at) : null;
        if (test instanceof JumpInsnNode && test.getOpcode() == Opcodes.IFEQ && at + 1 < method.flow.size()) {
            return new int[] {at + 1};
        }
        if (test instanceof JumpInsnNode jump && test.getOpcode() == Opcodes.IFNE) {
            return new int[] {method.node.instructions.indexOf(jump.label)};
        }
        return method.flow.next(taken.at);
    }

    // --- instructions that take and release

    private List<Action> own(MethodCode method) {
        List<Action> own = new ArrayList<>();
        method.operands.forEach((at, values) -> {
            int opcode = method.node.instructions.get(at).getOpcode();
            if (opcode == Opcodes.MONITORENTER || opcode == Opcodes.MONITOREXIT) {
                AbstractValue monitor = values.isEmpty() ? AbstractValue.UNSET : values.get(0);
                String text = "synchronized (" + named(monitor) + ") in " + method.shortName();
                own.add(new Action(at, monitor.key(), text, opcode == Opcodes.MONITORENTER, true, false));
            }
        });
        for (MethodCode.Call call : method.calls) {
            Action found = call.node() == null ? null : ofCall(method, call);
            if (found != null) {
                own.add(found);
            }
        }
        return own;
    }

    private Action ofCall(MethodCode method, MethodCode.Call call) {
        String owner = call.node().owner;
        String name = call.node().name;
        String key = call.receiver().key();
        boolean isSemaphore = isA(owner, SEMAPHORE);
        boolean isStamped = isA(owner, LOCKS + "StampedLock");
        boolean isLock = isA(owner, LOCKS + "Lock");
        if (isLock && TAKES.contains(name) || isSemaphore && PERMITS.contains(name) || isStamped && STAMPS.contains(name)) {
            String text = named(call.receiver()) + "." + name + "() in " + method.shortName();
            return new Action(call.at(), key, text, true, false, isSemaphore);
        }
        boolean gives = isLock && name.equals("unlock") || isSemaphore && name.equals("release")
                || isStamped && name.startsWith("unlock");
        return gives ? new Action(call.at(), key, "", false, false, isSemaphore) : null;
    }

    private boolean isA(String owner, String type) {
        return owner.startsWith("java/util/concurrent/") && classes.hierarchy.is(owner, type);
    }

    /** A short name for texts. */
    static String named(AbstractValue value) {
        String key = value.key();
        boolean isCall = key.endsWith("()");
        if (key.startsWith("this of ") && !isCall) {
            return "this";
        }
        if (key.isEmpty() || key.startsWith("this of ") || key.startsWith("new ") || key.startsWith("parameter ")) {
            return value.type().isEmpty() ? "an object" : "a " + value.type().substring(value.type().lastIndexOf('/') + 1).replace('$', '.');
        }
        int field = key.lastIndexOf('.', isCall ? key.lastIndexOf('.') - 1 : key.length());
        return key.substring(key.lastIndexOf('.', field - 1) + 1).replace('$', '.');
    }

    // --- methods that return with a lock, or release one

    private void addThoseOfCallees() {
        Map<MethodCode, List<Action>> added = new HashMap<>();
        for (Map.Entry<MethodCode, List<Action>> each : actions.entrySet()) {
            for (Action action : each.getValue()) {
                if (isKeptByField(action) && leaks(each.getKey(), action)) {
                    for (CallGraph.Caller caller : graph.callers(each.getKey())) {
                        if (caller.alternatives() == 1 && caller.call().method() != each.getKey()) {
                            added.computeIfAbsent(caller.call().method(), key -> new ArrayList<>()).add(
                                    new Action(caller.call().at(), action.key, action.text, action.isTaking, false, false));
                        }
                    }
                }
            }
        }
        added.forEach((method, more) -> actions.computeIfAbsent(method, key -> new ArrayList<>()).addAll(more));
    }

    private static boolean isKeptByField(Action action) {
        return !action.isMonitor && !action.isPermit && !action.key.isEmpty() && !action.key.startsWith("parameter ") && !action.key.startsWith("new ");
    }

    /** True if the method returns with the lock that it takes here, or releases here what it didn't take. */
    private boolean leaks(MethodCode method, Action action) {
        if (!action.isTaking) {
            return actions.get(method).stream().noneMatch(each -> each.isTaking && action.isFor(each));
        }
        BitSet held = method.flow.afterWithoutErrors(starts(method, action), releases(method, action));
        return held.stream().anyMatch(at -> {
            int opcode = method.node.instructions.get(at).getOpcode();
            return opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN;
        });
    }
}
