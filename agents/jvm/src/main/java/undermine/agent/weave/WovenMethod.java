package undermine.agent.weave;

import java.util.ArrayList;
import java.util.List;

/** A method to weave and its hooks. See JdkMethods and NettyMethods. */
final class WovenMethod {
    final Hook entry;
    /** Called before each return, too; or null. */
    final Hook end;

    WovenMethod(String entry, String end) {
        this.entry = new Hook(entry);
        this.end = end == null ? null : new Hook(end);
    }

    /** One hook and its arguments. */
    static final class Hook {
        final String owner;
        final String name;
        final boolean hasNoEnd;
        /** True if the hook replaces calls of `run` inside the method, and nothing else is woven. */
        final boolean isInside;
        /** True if the method's data may be changed. */
        final boolean changesData;
        final List<Argument> values = new ArrayList<Argument>();

        Hook(String text) {
            hasNoEnd = text.startsWith("!");
            isInside = text.startsWith("~");
            changesData = text.startsWith("*");
            int dot = text.indexOf('.');
            int open = text.indexOf('(');
            owner = "undermine/agent/" + text.substring(hasNoEnd || isInside || changesData ? 1 : 0, dot);
            name = text.substring(dot + 1, open);
            int from = open + 1;
            for (int at = text.indexOf(',', from); at >= 0; at = text.indexOf(',', from)) {
                values.add(new Argument(text.substring(from, at)));
                from = at + 1;
            }
            if (from < text.length() - 1) {
                values.add(new Argument(text.substring(from, text.length() - 1)));
            }
        }
    }

    /** An argument of a hook. */
    static final class Argument {
        /** The number of a parameter; -1 is `this`. */
        final int parameter;
        /** The field to read from it, or null. */
        final String field;
        final String type;
        final String owner;

        Argument(String text) {
            int dot = text.indexOf('.');
            String root = dot < 0 ? text : text.substring(0, dot);
            parameter = root.equals("this") ? -1 : Integer.parseInt(root);
            if (dot < 0) {
                field = null;
                type = null;
                owner = null;
                return;
            }
            int space = text.indexOf(' ');
            int second = text.indexOf(' ', space + 1);
            field = text.substring(dot + 1, space);
            type = text.substring(space + 1, second < 0 ? text.length() : second);
            owner = second < 0 ? null : text.substring(second + 1);
        }
    }
}
