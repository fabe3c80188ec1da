package undermine.agent.facts;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.Handle;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.tree.InvokeDynamicInsnNode;
import undermine.agent.values.AbstractValue;
import undermine.agent.values.Origin;

/** The methods of the target that each call may run before it returns. */
final class CallGraph {
    /** A call that may mean more methods than this says nothing; runs show which it means. */
    private static final int CALLEES_MAX = 8;
    /** The same for a type of the JDK or a library, such as `Runnable`, which unrelated classes implement. */
    private static final int FOREIGN_MAX = 2;
    private static final String LATER = "java/lang/Thread java/util/Timer java/util/concurrent/CompletableFuture";

    /** A call of a method from another one. */
    record Caller(MethodCode.Call call, int alternatives) {
    }

    private final TargetClasses classes;
    private final Map<MethodCode.Call, Set<MethodCode>> callees = new HashMap<>();
    private final Map<MethodCode, List<Caller>> callers = new HashMap<>();
    /** By interface and method name: the methods that lambdas and method references run. */
    private final Map<String, Set<MethodCode>> lambdas = new HashMap<>();

    CallGraph(TargetClasses classes) {
        this.classes = classes;
        for (MethodCode method : classes.methods) {
            for (MethodCode.Call call : method.calls) {
                MethodCode run = lambda(method, call.at());
                if (run != null) {
                    InvokeDynamicInsnNode made = (InvokeDynamicInsnNode) method.node.instructions.get(call.at());
                    String key = Type.getReturnType(made.desc).getInternalName() + "." + made.name;
                    lambdas.computeIfAbsent(key, each -> new LinkedHashSet<>()).add(run);
                }
            }
        }
        for (MethodCode method : classes.methods) {
            for (MethodCode.Call call : method.calls) {
                Set<MethodCode> found = call.node() == null ? Set.of() : found(method, call);
                if (!found.isEmpty() && found.size() <= CALLEES_MAX) {
                    callees.put(call, found);
                    found.forEach(each -> callers.computeIfAbsent(each, key -> new ArrayList<>()).add(new Caller(call, found.size())));
                }
            }
        }
    }

    Set<MethodCode> callees(MethodCode.Call call) {
        return callees.getOrDefault(call, Set.of());
    }

    List<Caller> callers(MethodCode method) {
        return callers.getOrDefault(method, List.of());
    }

    /** The method that the lambda or method reference created here runs; null if it isn't one, or not of the target. */
    MethodCode lambda(MethodCode method, int at) {
        if (method.node.instructions.get(at) instanceof InvokeDynamicInsnNode made) {
            for (Object argument : made.bsmArgs) {
                if (argument instanceof Handle handle) {
                    return classes.resolved(handle.getOwner(), handle.getName(), handle.getDesc());
                }
            }
        }
        return null;
    }

    private Set<MethodCode> found(MethodCode method, MethodCode.Call call) {
        int opcode = call.node().getOpcode();
        String name = call.node().name;
        String descriptor = call.node().desc;
        Set<MethodCode> found = new LinkedHashSet<>();
        boolean isExact = opcode == Opcodes.INVOKESTATIC || opcode == Opcodes.INVOKESPECIAL;
        boolean isForeign = false;
        for (String type : isExact ? Set.of(call.node().owner) : receivers(call)) {
            put(found, classes.resolved(type, name, descriptor));
            for (String each : isExact || call.receiver().isOnly(Origin.Kind.NEW) ? Set.<String>of() : classes.hierarchy.below(type)) {
                put(found, classes.declared(each, name, descriptor));
            }
            isForeign |= !isExact && classes.hierarchy.own(type) == null;
        }
        if (opcode == Opcodes.INVOKEINTERFACE) {
            found.addAll(lambdas.getOrDefault(call.node().owner + "." + name, Set.of()));
        }
        if (isForeign && (opcode == Opcodes.INVOKEVIRTUAL || found.size() > FOREIGN_MAX)) {
            found.clear(); // mostly an object of the JDK itself
        }
        if (found.isEmpty() && runsAtOnce(call.node().owner)) {
            call.values().forEach(value -> value.origins().forEach(origin -> {
                if (origin.kind() == Origin.Kind.LAMBDA) {
                    put(found, lambda(method, origin.at()));
                }
            }));
        }
        return found;
    }

    private static void put(Set<MethodCode> found, MethodCode method) {
        if (method != null) {
            found.add(method);
        }
    }

    /** The classes of the receiver, as narrow as the code shows. */
    private Set<String> receivers(MethodCode.Call call) {
        AbstractValue receiver = call.receiver();
        Set<String> found = new LinkedHashSet<>();
        if (receiver.isOnly(Origin.Kind.NEW)) {
            for (Origin origin : receiver.origins()) {
                found.add(origin.text().split(" ")[1]);
            }
            return found;
        }
        boolean isNarrower = !receiver.type().isEmpty() && !receiver.type().startsWith("[")
                && classes.hierarchy.is(receiver.type(), call.node().owner);
        found.add(isNarrower ? receiver.type() : call.node().owner);
        return found;
    }

    /** False for methods of the JDK that run what they get in another thread, or later. */
    private boolean runsAtOnce(String owner) {
        for (String each : LATER.split(" ")) {
            if (classes.hierarchy.is(owner, each)) {
                return false;
            }
        }
        return owner.startsWith("java/util/") && !classes.hierarchy.is(owner, "java/util/concurrent/Executor");
    }
}
