import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import undermine.agent.faults.DecisionTable;
import undermine.agent.lib.Json;
import undermine.agent.operations.EnclosingOperation;
import undermine.agent.operations.Operation;
import undermine.agent.process.ProcessIds;
import undermine.agent.record.Ops;
import undermine.agent.wire.Config;
import undermine.agent.wire.SharedState;

/**
 * Prints facts of the JVM agent as JSON. Each argument is a fact: `Class.FIELD`, below the agent's package; `parts OP OTHER…`:
 * which of the others are part of the logical operation; `observed FAMILY`: the operations that are looked up if only this
 * family is observed.
 */
public final class ProtocolFacts {
    private ProtocolFacts() {
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> facts = new LinkedHashMap<String, Object>();
        for (String argument : arguments) {
            List<String> words = Arrays.asList(argument.split(" "));
            String kind = words.get(0);
            facts.put(argument, kind.equals("parts") ? parts(words.get(1), words.subList(2, words.size()))
                    : kind.equals("observed") ? observed(words.subList(1, words.size())) : constant(kind));
        }
        System.out.println(Json.write(facts));
    }

    private static Object constant(String name) throws Exception {
        int dot = name.lastIndexOf('.');
        Field field = Class.forName("undermine.agent." + name.substring(0, dot)).getDeclaredField(name.substring(dot + 1));
        field.setAccessible(true);
        Object value = field.get(null);
        return value instanceof byte[] ? new String((byte[]) value, StandardCharsets.US_ASCII)
                : value instanceof Integer ? (Object) ((Integer) value).longValue() : value;
    }

    private static List<String> parts(String op, List<String> others) throws Exception {
        Method isBelow = EnclosingOperation.class.getDeclaredMethod("isBelow", String.class);
        isBelow.setAccessible(true);
        List<String> found = new ArrayList<String>();
        for (String other : others) {
            if ((Boolean) isBelow.invoke(new EnclosingOperation(op, "peer:s1"), other)) {
                found.add(other);
            }
        }
        return found;
    }

    private static List<String> observed(List<String> families) throws Exception {
        Map<String, Object> json = new LinkedHashMap<String, Object>();
        json.put("version", (long) Config.VERSION);
        json.put("observe", families);
        for (String each : Arrays.asList("heap", "content")) { // they have switches of their own
            json.put(each, families.contains(each));
        }
        Config config = new Config(json, ProcessIds.read());
        ByteBuffer view = ByteBuffer.allocate(1024).order(ByteOrder.LITTLE_ENDIAN);
        view.put("UMS2".getBytes(StandardCharsets.US_ASCII));
        DecisionTable table = new DecisionTable(new SharedState(view), config);
        Method find = Ops.class.getDeclaredMethod("find", DecisionTable.class, Config.class);
        find.setAccessible(true);
        find.invoke(null, table, config);
        List<String> found = new ArrayList<String>();
        for (Field field : Ops.class.getDeclaredFields()) {
            field.setAccessible(true);
            Operation operation = (Operation) field.get(null);
            if (operation != null) {
                found.add(operation.name);
            }
        }
        return found;
    }
}
