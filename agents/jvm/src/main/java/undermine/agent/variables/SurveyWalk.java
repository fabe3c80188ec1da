package undermine.agent.variables;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.math.BigDecimal;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.DoubleAccumulator;
import java.util.concurrent.atomic.DoubleAdder;
import java.util.regex.Pattern;
import undermine.agent.stacks.Sites;

/**
 * Finds paths that lead to plain values. It enters objects of the target's own classes, unless other paths start at them,
 * and the containers that a path may open. Values that can never change are left out.
 */
final class SurveyWalk {
    /** Of a container. */
    static final int KEYS_MAX = 64;
    private static final int STEPS_MAX = 3;
    private static final int VISITED_MAX = 2000;
    /** Elements of a container that are entered. */
    private static final int ENTERED_MAX = 3;
    /** More bytes are a buffer, and not a name. */
    private static final int BYTES_MAX = 256;
    /** Larger arrays are lists, and not records of several things. */
    private static final int RECORD_MAX = 4;
    private static final String ATOMIC = "java.util.concurrent.atomic.";
    /** Between two words of a name. */
    private static final Pattern WORDS = Pattern.compile("(?<=[a-z0-9])(?=[A-Z])");
    /** Words in the names of fields that tell objects apart, the best first. */
    private static final String[] TELLING = {"id", "key", "name", "address", "addr", "uid", "host"};
    /** Fractions are times, sizes and loads; arrays of characters are buffers. */
    private static final Set<Class<?>> NEVER = new HashSet<Class<?>>(Arrays.<Class<?>>asList(
            float.class, double.class, Float.class, Double.class, BigDecimal.class, DoubleAdder.class, DoubleAccumulator.class,
            char[].class, float[].class, double[].class));
    private static final Class<?>[] PLAIN = {CharSequence.class, Number.class, Boolean.class, Character.class, Enum.class,
            UUID.class, InetAddress.class, InetSocketAddress.class, Map.class, Collection.class};

    private final Sites sites;
    /** Objects at which other paths start. */
    private final Set<Object> roots;
    private final Set<String> found = new LinkedHashSet<String>();
    private int visited;

    SurveyWalk(Sites sites, Set<Object> roots) {
        this.sites = sites;
        this.roots = roots;
    }

    /** The paths from the newest instance of a class, if it is a start, and from its static fields. */
    List<Found> from(SurveyedClass start) {
        List<Found> paths = new ArrayList<Found>();
        Object instance = start.isStart ? start.root.newest() : null;
        try {
            if (instance != null) {
                begin();
                enter(start.text, instance, STEPS_MAX - 1, true);
                add(paths, start, false);
            }
            Class<?> type = start.root.type();
            if (type != null && !type.isEnum() && InitialisedClasses.is(type)) {
                begin();
                enterClass(start.text, type);
                add(paths, start, true);
            }
        } catch (ReflectiveOperationException | LinkageError | StackOverflowError unreadable) {
            return paths;
        }
        return paths;
    }

    private void begin() {
        found.clear();
        visited = 0;
    }

    private void add(List<Found> paths, SurveyedClass start, boolean isStatic) {
        for (String each : found) {
            paths.add(new Found(each, start, isStatic));
        }
    }

    /** Static fields with plain values and containers. Their objects have paths of their own. */
    private void enterClass(String text, Class<?> type) throws ReflectiveOperationException {
        for (Field field : Fields.all(type)) {
            boolean isMine = Modifier.isStatic(field.getModifiers()) && field.getDeclaringClass() == type;
            if (isMine && !VariablePath.isNestedClass(field.getName())) {
                through(text, field, null, STEPS_MAX - 1, true);
            }
        }
    }

    /** The fields of an object. `isFixed`: it is always the same object. */
    private void enter(String text, Object owner, int steps, boolean isFixed) throws ReflectiveOperationException {
        for (Field field : Fields.all(owner.getClass())) {
            boolean isAmbiguous = steps == STEPS_MAX - 1 && VariablePath.isNestedClass(field.getName());
            if (!Modifier.isStatic(field.getModifiers()) && !isAmbiguous) {
                through(text, field, owner, steps, isFixed);
            }
        }
    }

    private void through(String text, Field field, Object owner, int steps, boolean isFixed) throws ReflectiveOperationException {
        if (NEVER.contains(field.getType())) {
            return;
        }
        Object value = field.get(owner);
        boolean isConstant = isFixed && Modifier.isFinal(field.getModifiers());
        if (value == null ? isConstant || !mayBePlain(field.getType()) : isConstant && isPlain(value) && !mayChange(value)) {
            return;
        }
        follow(text + "." + field.getName(), value, steps, isConstant);
    }

    private void follow(String text, Object value, int steps, boolean isFixed) throws ReflectiveOperationException {
        Object inner = Items.unwrapped(value);
        if (++visited > VISITED_MAX || inner != null && NEVER.contains(inner.getClass())) {
            return;
        }
        if (isPlain(inner)) {
            found.add(text);
            return;
        }
        if (inner instanceof byte[]) {
            return;
        }
        try {
            Items items = Items.of(inner);
            if (items != null) {
                open(text, inner, items, steps);
                return;
            }
        } catch (RuntimeException changing) { // another thread has changed it meanwhile
            return;
        }
        if (steps > 0 && sites.isOfTarget(inner.getClass()) && !roots.contains(inner)) {
            enter(text, inner, steps - 1, isFixed && inner == value);
        }
    }

    private void open(String text, Object container, Items items, int steps) throws ReflectiveOperationException {
        if (items.size > KEYS_MAX) {
            return;
        }
        List<Object> keys = new ArrayList<Object>();
        List<Object> values = new ArrayList<Object>();
        boolean arePlain = true;
        while (items.next()) {
            keys.add(items.isMap ? items.key : items.value);
            values.add(items.value);
            arePlain &= isPlain(keys.get(keys.size() - 1));
        }
        if (arePlain) {
            found.add(text);
        }
        if (keys.isEmpty() || steps == 0) {
            return;
        }
        if (arePlain && !items.isMap) {
            boolean isRecord = container.getClass().isArray() && values.size() <= RECORD_MAX;
            for (int i = 0; isRecord && i < values.size(); i++) {
                found.add(text + "[" + i + "]");
            }
            return;
        }
        String name = arePlain ? "*" : telling(keys);
        if (name == null) {
            return;
        }
        if (!items.isMap) {
            found.add(text + "[" + name + "]");
        }
        for (Object value : values.subList(0, Math.min(ENTERED_MAX, values.size()))) {
            follow(text + "[" + name + "]", value, steps - 1, false);
        }
    }

    /** `*.id`, with the field whose values tell these objects apart; null if there is none. */
    private static String telling(List<Object> things) throws ReflectiveOperationException {
        Field best = null;
        int rank = TELLING.length;
        Object first = things.get(0);
        for (Field field : first == null ? new Field[0] : Fields.all(first.getClass())) {
            List<String> words = Arrays.asList(WORDS.matcher(field.getName()).replaceAll("_").toLowerCase(Locale.ROOT).split("_"));
            for (int i = 0; i < TELLING.length; i++) {
                boolean isBetter = i < rank || i == rank && field.getName().length() < best.getName().length();
                if (words.contains(TELLING[i]) && isBetter && tells(field, things)) {
                    best = field;
                    rank = i;
                }
            }
        }
        return best == null ? null : "*." + best.getName();
    }

    /** True if this field has a different text or whole number in each of these objects. */
    private static boolean tells(Field field, List<Object> things) throws ReflectiveOperationException {
        Set<Object> values = new HashSet<Object>();
        for (Object thing : things) {
            boolean hasIt = thing != null && field.getDeclaringClass().isInstance(thing);
            Object value = hasIt && !Modifier.isStatic(field.getModifiers()) ? field.get(thing) : null;
            if (!(value instanceof String || value instanceof Integer || value instanceof Long) || !values.add(value)) {
                return false;
            }
        }
        return true;
    }

    /** True for a plain value that nodes may agree about. */
    private static boolean isPlain(Object value) {
        return value instanceof byte[] ? ((byte[]) value).length <= BYTES_MAX
                : value == null || !NEVER.contains(value.getClass()) && Texts.plain(value) != null;
    }

    private static boolean mayChange(Object value) {
        return value instanceof byte[] || value.getClass().getName().startsWith(ATOMIC);
    }

    /** True if a field of this type, which has no value yet, may have one that a path can lead to. */
    private boolean mayBePlain(Class<?> type) {
        if (type == Object.class || sites.isOfTarget(type)) {
            return true;
        }
        for (Class<?> each : PLAIN) {
            if (each.isAssignableFrom(type)) {
                return true;
            }
        }
        return false;
    }

    /** A path, and the class at which it starts. Those with the fewest steps come first. */
    static final class Found implements Comparable<Found> {
        final String path;
        final SurveyedClass start;
        final boolean isStatic;
        private final int steps;

        Found(String path, SurveyedClass start, boolean isStatic) {
            this.path = path;
            this.start = start;
            this.isStatic = isStatic;
            int count = 0;
            for (int i = start.text.length(); i < path.length(); i++) {
                count += path.charAt(i) == '.' || path.charAt(i) == '[' ? 1 : 0;
            }
            steps = count;
        }

        @Override
        public int compareTo(Found other) {
            return steps - other.steps;
        }
    }
}
