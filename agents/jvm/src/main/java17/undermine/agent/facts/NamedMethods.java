package undermine.agent.facts;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import undermine.agent.weave.ParameterNames;

/** The methods that the user named as operations. A method of an interface or base class means all that override it. */
final class NamedMethods {
    /** `takes` has the simple names of the parameters' types, in parentheses; empty: any parameters. */
    private record Named(String owner, String takes, String operation) {
    }

    private final Hierarchy hierarchy;
    private final Map<String, List<Named>> byName = new HashMap<>();

    NamedMethods(Hierarchy hierarchy, List<?> given) {
        this.hierarchy = hierarchy;
        for (Object each : given) {
            if (each instanceof List<?> pair && pair.size() == 2) {
                add(String.valueOf(pair.get(0)), String.valueOf(pair.get(1)));
            }
        }
    }

    /** `package:Outer.Inner.method`, or with types: `package:Class.method(String,int)`. */
    private void add(String text, String operation) {
        int open = text.indexOf('(');
        String function = open < 0 ? text : text.substring(0, open);
        int colon = function.indexOf(':');
        int dot = function.lastIndexOf('.');
        if (colon < 0 || dot < colon) {
            return;
        }
        String nested = function.substring(colon + 1, dot).replace('.', '$');
        String owner = colon == 0 ? nested : function.substring(0, colon).replace('.', '/') + "/" + nested;
        byName.computeIfAbsent(function.substring(dot + 1), key -> new ArrayList<>())
                .add(new Named(owner, open < 0 ? "" : text.substring(open), operation));
    }

    /** The operation of a called method; empty if it isn't named. */
    String operation(String owner, String name, String descriptor) {
        for (Named each : byName.getOrDefault(name, List.of())) {
            boolean isTaking = each.takes.isEmpty() || each.takes.equals(ParameterNames.simple(descriptor));
            if (isTaking && !owner.startsWith("[") && hierarchy.is(owner, each.owner)) {
                return each.operation;
            }
        }
        return "";
    }
}
