package undermine.agent.own;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import undermine.agent.process.NativeHelper;
import undermine.agent.process.ProcessIds;
import undermine.agent.wire.Config;

/** Each replaced method and its replacement exist. */
class ReplacedCallsTest {
    private static ReplacedCalls calls() throws IOException {
        List<String> families = List.of("sync", "handover", "time");
        Map<String, Object> json = new HashMap<>(Map.of("version", 2L, "incarnation", 1L, "observe", families));
        return new ReplacedCalls(new Config(json, ProcessIds.read()));
    }

    private static Class<?> type(String name) throws ClassNotFoundException {
        return Class.forName(name.replace('/', '.'), false, ReplacedCallsTest.class.getClassLoader());
    }

    private static Method method(Class<?> type, String name, String descriptor) throws NoSuchMethodException {
        MethodType wanted = MethodType.fromMethodDescriptorString(descriptor, ReplacedCallsTest.class.getClassLoader());
        return type.getMethod(name, wanted.parameterArray());
    }

    @Test
    void eachReplacementExists() throws Exception {
        int count = 0;
        for (Map.Entry<String, Map<String, ReplacedCalls.Replacement>> owner : calls().byOwner.entrySet()) {
            for (Map.Entry<String, ReplacedCalls.Replacement> each : owner.getValue().entrySet()) {
                String name = each.getKey().substring(0, each.getKey().indexOf('('));
                String descriptor = each.getKey().substring(name.length());
                ReplacedCalls.Replacement call = each.getValue();
                boolean isMissing = call.owner.endsWith("NewestCalls") && NativeHelper.version() < 19;
                Method original = isMissing ? null : method(type(owner.getKey()), name, descriptor);
                String places = call.isNumbered ? call.descriptor.replace(")", "III)") : call.descriptor;
                Method instead = method(type(call.owner), name, places);
                assertTrue(Modifier.isStatic(instead.getModifiers()), each.getKey());
                assertEquals(
                        MethodType.fromMethodDescriptorString(descriptor, getClass().getClassLoader()).returnType(),
                        instead.getReturnType(), owner.getKey() + "." + each.getKey());
                assertTrue(isMissing || Modifier.isPublic(original.getModifiers()), each.getKey());
                count++;
            }
        }
        assertTrue(count > 200, "so many: " + count);
    }

    @Test
    void callsOfBothFamiliesAreReplacedForEach() throws Exception {
        for (String family : new String[] {"sync", "handover"}) {
            Map<String, Object> json =
                    new HashMap<>(Map.of("version", 2L, "incarnation", 1L, "observe", List.of(family)));
            ReplacedCalls calls = new ReplacedCalls(new Config(json, ProcessIds.read()));
            String exchange = "(Ljava/lang/Object;)Ljava/lang/Object;";
            assertTrue(calls.instead("java/util/concurrent/Exchanger", "exchange", exchange) != null, family);
            String invoke = "(Ljava/util/Collection;)Ljava/util/List;";
            assertTrue(calls.instead("java/util/concurrent/ExecutorService", "invokeAll", invoke) != null, family);
        }
    }
}
