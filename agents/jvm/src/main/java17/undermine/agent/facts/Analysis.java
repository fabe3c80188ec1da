package undermine.agent.facts;

import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.objectweb.asm.Opcodes;
import undermine.agent.lib.Json;
import undermine.agent.lib.JsonValues;

/**
 * Reads a request from the standard input and writes the facts of a program to the standard output, both as JSON.
 *
 * The request has `class_path` and `packages` (lists of texts), and `named` (pairs of a method and its operation).
 */
public final class Analysis {
    private Analysis() {
    }

    public static void main(String[] arguments) throws IOException {
        String request = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        Map<String, Object> asked = JsonValues.map(Json.read(request));
        try (ClassPath path = new ClassPath(texts(asked.get("class_path")));
                Writer out = new OutputStreamWriter(System.out, StandardCharsets.US_ASCII)) {
            out.write(Json.write(facts(path, texts(asked.get("packages")), JsonValues.list(asked.get("named")))));
        }
    }

    private static List<String> texts(Object value) {
        List<String> found = new ArrayList<>();
        JsonValues.list(value).forEach(each -> found.add(String.valueOf(each)));
        return found;
    }

    static Map<String, Object> facts(ClassPath path, List<String> packages, List<?> named) {
        TargetClasses classes = new TargetClasses(path, new OwnPackages(packages));
        CallGraph graph = new CallGraph(classes);
        IoCalls calls = new IoCalls(classes, graph, new NamedMethods(classes.hierarchy, named));
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("classes", classes.classes);
        found.put("lines", classes.methods.stream().mapToInt(MethodCode::lineCount).sum());
        found.put("functions", functions(classes, graph));
        found.put("points", points(classes, calls));
        found.put("regions", regions(classes, graph));
        List<Object> troubles = new ArrayList<>();
        path.troubles.forEach((file, why) -> troubles.add(List.of(file, why)));
        found.put("troubles", troubles);
        found.put("named_by_manifests", new ArrayList<>(path.named));
        return found;
    }

    private static List<Object> functions(TargetClasses classes, CallGraph graph) {
        List<Object> found = new ArrayList<>();
        for (MethodCode method : classes.methods) {
            if (method.is(Opcodes.ACC_BRIDGE)) { // it has the name of the method that it calls
                continue;
            }
            List<Object> calls = new ArrayList<>();
            for (MethodCode.Call call : method.calls) {
                List<String> callees = graph.callees(call).stream().map(callee -> callee.id).distinct().toList();
                if (!callees.isEmpty()) {
                    calls.add(List.of(call.ordinal(), callees));
                }
            }
            Map<String, Object> each = new LinkedHashMap<>();
            each.put("id", method.id);
            each.put("count", method.calls.size());
            each.put("calls", calls);
            each.put("body", MethodBody.of(method, classes.hierarchy));
            found.add(each);
        }
        return found;
    }

    private static List<Object> points(TargetClasses classes, IoCalls calls) {
        List<Object> found = new ArrayList<>();
        for (MethodCode method : classes.methods) {
            for (MethodCode.Call call : method.is(Opcodes.ACC_BRIDGE) ? List.<MethodCode.Call>of() : method.calls) {
                String operation = calls.operation(call);
                if (!operation.isEmpty()) {
                    Map<String, Object> each = new LinkedHashMap<>();
                    each.put("function", method.id);
                    each.put("ordinal", call.ordinal());
                    each.put("file", method.file);
                    each.put("line", method.line(call.at()));
                    each.put("op", operation);
                    each.put("call", call.node().owner.replace('/', '.') + "." + call.node().name);
                    each.put("block", method.flow.blocks[call.at()]);
                    found.add(each);
                }
            }
        }
        return found;
    }

    private static List<Object> regions(TargetClasses classes, CallGraph graph) {
        List<Region> all = new ArrayList<>(new Locking(classes, graph).regions());
        all.addAll(new Barriers(classes, graph).regions());
        all.addAll(new Clocks(classes, graph).regions());
        List<Object> found = new ArrayList<>();
        all.stream().filter(Region::matters).forEach(region -> found.add(region.json()));
        return found;
    }
}
