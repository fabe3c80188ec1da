package undermine.agent.facts;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.FieldNode;

/** The classes and interfaces above and below each class. It reads the heads of libraries' and the JDK's class files. */
final class Hierarchy {
    private static final int ABOVE_MAX = 200;

    private final ClassPath path;
    private final Map<String, ClassNode> own = new TreeMap<>();
    private final Map<String, List<String>> parents = new HashMap<>();
    private final Map<String, Set<String>> children = new HashMap<>();
    private final Map<String, Set<String>> above = new HashMap<>();

    Hierarchy(ClassPath path) {
        this.path = path;
    }

    void add(ClassNode type) {
        own.put(type.name, type);
        List<String> found = new ArrayList<>(type.interfaces);
        if (type.superName != null) {
            found.add(0, type.superName);
        }
        parents.put(type.name, found);
    }

    /** Call this when all classes of the target were added. */
    void complete() {
        for (String name : own.keySet()) {
            for (String each : above(name)) {
                children.computeIfAbsent(each, key -> new TreeSet<>()).add(name);
            }
        }
    }

    /** The class of the target with this name, or null. */
    ClassNode own(String name) {
        return own.get(name);
    }

    Iterable<ClassNode> all() {
        return own.values();
    }

    private List<String> parents(String name) {
        List<String> found = parents.get(name);
        if (found == null) {
            found = read(name);
            parents.put(name, found);
        }
        return found;
    }

    private List<String> read(String name) {
        byte[] bytes = path.bytes(name);
        if (bytes == null) {
            return List.of();
        }
        try {
            ClassReader reader = new ClassReader(bytes);
            List<String> found = new ArrayList<>(List.of(reader.getInterfaces()));
            if (reader.getSuperName() != null) {
                found.add(0, reader.getSuperName());
            }
            return found;
        } catch (RuntimeException broken) {
            path.troubles.put(name, ClassPath.reason(broken));
            return List.of();
        }
    }

    /** The class itself, its superclasses and all interfaces, the nearest first. */
    Set<String> above(String name) {
        Set<String> known = above.get(name);
        if (known != null) {
            return known;
        }
        Set<String> found = new LinkedHashSet<>();
        Deque<String> left = new ArrayDeque<>(List.of(name));
        while (!left.isEmpty() && found.size() < ABOVE_MAX) {
            String next = left.poll();
            if (found.add(next)) {
                left.addAll(parents(next));
            }
        }
        above.put(name, found);
        return found;
    }

    boolean is(String name, String type) {
        return name.equals(type) || above(name).contains(type);
    }

    /** The target's classes below this class or interface, with itself. */
    Set<String> below(String name) {
        return children.getOrDefault(name, Set.of());
    }

    /** The name of a field with the class that declares it: `a.b.C.field`. */
    String field(String owner, String name) {
        for (String each : above(owner)) {
            ClassNode type = own.get(each);
            for (FieldNode field : type == null ? List.<FieldNode>of() : type.fields) {
                if (field.name.equals(name)) {
                    return each.replace('/', '.') + "." + name;
                }
            }
        }
        return owner.replace('/', '.') + "." + name;
    }
}
