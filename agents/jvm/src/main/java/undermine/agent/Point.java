package undermine.agent;

import java.util.ArrayList;
import java.util.List;

/** A method that is woven, and what it calls. See JdkMethods and NettyMethods. */
final class Point {
    final Entry entry;
    /** Called at its end too; or null. */
    final Entry end;

    Point(String entry, String end) {
        this.entry = new Entry(entry);
        this.end = end == null ? null : new Entry(end);
    }

    /** One hook and what it is given. */
    static final class Entry {
        final String owner;
        final String name;
        final boolean hasNoEnd;
        /** Calls of `run` inside are replaced by it, and nothing else is woven. */
        final boolean isInside;
        final List<Value> values = new ArrayList<Value>();

        Entry(String text) {
            hasNoEnd = text.startsWith("!");
            isInside = text.startsWith("~");
            int dot = text.indexOf('.');
            int open = text.indexOf('(');
            owner = "undermine/agent/" + text.substring(hasNoEnd || isInside ? 1 : 0, dot);
            name = text.substring(dot + 1, open);
            int from = open + 1;
            for (int at = text.indexOf(',', from); at >= 0; at = text.indexOf(',', from)) {
                values.add(new Value(text.substring(from, at)));
                from = at + 1;
            }
            if (from < text.length() - 1) {
                values.add(new Value(text.substring(from, text.length() - 1)));
            }
        }
    }

    /** Something a hook is given. */
    static final class Value {
        /** The number of a parameter; -1 is `this`. */
        final int parameter;
        /** Of this field, if there is one. */
        final String field;
        final String type;
        final String owner;

        Value(String text) {
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
