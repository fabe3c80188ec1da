package undermine.agent.weave;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import undermine.agent.classfiles.ClassBytes;
import undermine.agent.operations.LogicalMethod;

/**
 * Finds the methods of a class that override or implement a named one. It reads class files, since a class that is loaded
 * while another one is woven is never woven itself.
 */
final class OverriddenMethods {
    private static final int ABOVE_MAX = 200;
    private static final int HEADS_ONLY = ClassReader.SKIP_CODE | ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES;

    private final List<LogicalMethod> named;
    private final Map<ClassLoader, Map<String, List<String>>> parents = new WeakHashMap<ClassLoader, Map<String, List<String>>>();

    OverriddenMethods(List<LogicalMethod> named) {
        this.named = named;
    }

    /** The named methods of classes and interfaces above this class that it has itself. */
    List<LogicalMethod> of(ClassLoader loader, String name, byte[] bytes) {
        if (named.isEmpty()) {
            return Collections.emptyList();
        }
        ClassReader reader = new ClassReader(bytes);
        Set<String> declared = null;
        Set<String> above = null;
        List<LogicalMethod> found = new ArrayList<LogicalMethod>();
        for (LogicalMethod method : named) {
            declared = declared == null ? methods(reader, Opcodes.ACC_STATIC | Opcodes.ACC_PRIVATE | Opcodes.ACC_ABSTRACT) : declared;
            if (!method.owner().equals(name) && declared.contains(method.name)) {
                above = above == null ? above(loader, reader) : above;
                if (above.contains(method.owner())) {
                    found.add(method);
                }
            }
        }
        return found;
    }

    /** True if the class has a method of this name. */
    static boolean isDeclared(ClassReader reader, String name) {
        return methods(reader, 0).contains(name);
    }

    private static Set<String> methods(ClassReader reader, final int without) {
        final Set<String> found = new HashSet<String>();
        reader.accept(new ClassVisitor(Opcodes.ASM9) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] thrown) {
                if ((access & without) == 0) {
                    found.add(name);
                }
                return null;
            }
        }, HEADS_ONLY);
        return found;
    }

    private Set<String> above(ClassLoader loader, ClassReader reader) {
        Set<String> found = new HashSet<String>();
        Deque<String> left = new ArrayDeque<String>(parentsOf(reader));
        while (!left.isEmpty() && found.size() < ABOVE_MAX) {
            String next = left.poll();
            if (found.add(next)) {
                left.addAll(parents(loader, next));
            }
        }
        return found;
    }

    private List<String> parents(ClassLoader loader, String name) {
        Map<String, List<String>> mine;
        synchronized (parents) {
            mine = parents.get(loader);
            if (mine == null) {
                mine = new HashMap<String, List<String>>();
                parents.put(loader, mine);
            }
        }
        synchronized (mine) {
            if (mine.containsKey(name)) {
                return mine.get(name);
            }
        }
        byte[] bytes = ClassBytes.of(loader, name.replace('/', '.'));
        List<String> found = bytes == null ? Collections.<String>emptyList() : parentsOf(new ClassReader(bytes));
        synchronized (mine) {
            mine.put(name, found);
        }
        return found;
    }

    private static List<String> parentsOf(ClassReader reader) {
        List<String> found = new ArrayList<String>();
        if (reader.getSuperName() != null) {
            found.add(reader.getSuperName());
        }
        Collections.addAll(found, reader.getInterfaces());
        return found;
    }
}
