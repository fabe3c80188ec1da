package undermine.agent.heap;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.lang.reflect.Method;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.objectweb.asm.Type;

/** The table names methods that exist, and knows their arguments. */
class HeapMethodTest {
    private static final String O = "Ljava/lang/Object;";
    private static final String MAP = "java/util/Map";

    private static void addMethods(Set<String> found, String owner) throws ClassNotFoundException {
        for (Method method : Class.forName(owner.replace('/', '.')).getMethods()) {
            found.add(method.getName() + Type.getMethodDescriptor(method));
        }
    }

    @Test
    void theJdkHasEachMethod() throws ClassNotFoundException {
        Set<String> ofCollections = new HashSet<>();
        for (String owner : HeapMethod.COLLECTIONS) {
            addMethods(ofCollections, owner);
        }
        Set<String> missing = new TreeSet<>(HeapMethod.OF_COLLECTIONS.keySet());
        missing.removeAll(ofCollections);
        Set<String> ofAtomics = new HashSet<>();
        for (String each : List.of("Boolean", "Integer", "Long", "Reference")) {
            addMethods(ofAtomics, "java/util/concurrent/atomic/Atomic" + each);
        }
        Set<String> atomic = new TreeSet<>(HeapMethod.OF_ATOMICS.keySet());
        atomic.removeAll(ofAtomics);
        missing.addAll(atomic);
        assertEquals(Set.of(), missing);
    }

    @Test
    void argumentsAreKeysAndValues() {
        HeapMethod put = HeapMethod.of(MAP, "put", "(" + O + O + ")" + O);
        assertEquals(List.of(0, 1), List.of(put.key, put.value));
        HeapMethod add = HeapMethod.of("java/util/List", "add", "(" + O + ")Z");
        assertEquals(List.of(0, 0), List.of(add.key, add.value));
        HeapMethod replace = HeapMethod.of(MAP, "replace", "(" + O + O + O + ")Z");
        assertEquals(List.of(0, 2), List.of(replace.key, replace.value));
        HeapMethod size = HeapMethod.of(MAP, "size", "()I");
        assertEquals(List.of(-1, -1), List.of(size.key, size.value));
        HeapMethod set = HeapMethod.of("java/util/concurrent/atomic/AtomicBoolean", "compareAndSet", "(ZZ)Z");
        assertEquals(List.of(-1, 1), List.of(set.key, set.value));
        assertSame(put, HeapMethod.at(put.number));
    }

    @Test
    void otherMethodsAccessNothing() {
        assertNull(HeapMethod.of("java/util/concurrent/Future", "get", "()" + O));
        assertNull(HeapMethod.of("java/util/Optional", "get", "()" + O));
        assertNull(HeapMethod.of("java/lang/ThreadLocal", "get", "()" + O));
        assertNull(HeapMethod.of(MAP, "hashCode", "()I"));
    }
}
