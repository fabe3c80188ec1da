package undermine.agent.stacks;

/** Names methods of the target as `package:Class.Inner.method`, the same in every run. */
public final class Locs {
    private static final String LAMBDA = "lambda$";

    private Locs() {
    }

    /** The name of a method. `calls` knows the other methods of its class and may be null. */
    public static String of(String className, String method, String descriptor, CallCounter calls) {
        StringBuilder found = new StringBuilder(className.length() + method.length() + 8);
        putClass(found, className);
        found.append('.');
        if (method.startsWith(LAMBDA)) {
            putLambda(found, method, calls);
        } else {
            found.append(method);
            if (calls != null && !descriptor.isEmpty() && calls.isOverloaded(method)) {
                putTypes(found, descriptor);
            }
        }
        return found.toString();
    }

    /** The name of a class: `package:Class.Inner`. */
    public static String ofClass(String className) {
        StringBuilder found = new StringBuilder(className.length());
        putClass(found, className);
        return found.toString();
    }

    /**
     * `a.b.Outer$Inner$1` becomes `a.b:Outer.Inner.<1>`. The suffix of a hidden class is dropped, since it differs from
     * run to run.
     */
    private static void putClass(StringBuilder found, String className) {
        int end = className.indexOf('/');
        String name = end < 0 ? className : className.substring(0, end);
        int dot = name.lastIndexOf('.');
        found.append(name, 0, Math.max(dot, 0)).append(':');
        String rest = name.substring(dot + 1);
        if (rest.startsWith("$Proxy")) {
            found.append("$Proxy"); // the JVM numbers proxies in the order of their creation
            return;
        }
        int at = 0;
        for (int next = rest.indexOf('$', 1); next > 0; next = rest.indexOf('$', next + 1)) {
            if (next + 1 < rest.length() && rest.charAt(next + 1) != '$' && rest.charAt(next - 1) != '$') {
                putPart(found, rest.substring(at, next));
                found.append('.');
                at = next + 1;
            }
        }
        putPart(found, rest.substring(at));
    }

    /** Put the number of an anonymous or local class in angle brackets. */
    private static void putPart(StringBuilder found, String part) {
        int digits = 0;
        while (digits < part.length() && Character.isDigit(part.charAt(digits))) {
            digits++;
        }
        if (digits > 0) {
            found.append('<').append(part, 0, digits).append('>');
        }
        found.append(part, digits, part.length());
    }

    /** `lambda$run$3` becomes `run.<lambda>`; the second lambda in methods named `run` becomes `run.<lambda2>`. */
    private static void putLambda(StringBuilder found, String method, CallCounter calls) {
        int end = method.lastIndexOf('$');
        String inside = end > LAMBDA.length() ? method.substring(LAMBDA.length(), end) : method.substring(LAMBDA.length());
        found.append(inside.equals("new") ? "<init>" : inside.equals("static") ? "<clinit>" : inside);
        int number = calls == null ? 1 : lambdaNumber(method, method.substring(0, end + 1), calls);
        found.append(".<lambda").append(number > 1 ? String.valueOf(number) : "").append('>');
    }

    private static int lambdaNumber(String method, String prefix, CallCounter calls) {
        int own = number(method, prefix);
        int count = 1;
        for (CallCounter.Method other : calls.methods) {
            if (other.name.startsWith(prefix)) {
                int theirs = number(other.name, prefix);
                count += theirs >= 0 && theirs < own ? 1 : 0;
            }
        }
        return count;
    }

    private static int number(String method, String prefix) {
        int number = 0;
        for (int i = prefix.length(); i < method.length(); i++) {
            int digit = Character.digit(method.charAt(i), 10);
            if (digit < 0 || number > 100_000) {
                return -1;
            }
            number = 10 * number + digit;
        }
        return method.length() > prefix.length() ? number : -1;
    }

    /** `(Ljava/lang/String;[I)V` becomes `(String,int[])`. */
    private static void putTypes(StringBuilder found, String descriptor) {
        char before = '(';
        int at = 1;
        while (at < descriptor.length() && descriptor.charAt(at) != ')') {
            found.append(before);
            before = ',';
            int dimensions = 0;
            while (descriptor.charAt(at) == '[') {
                dimensions++;
                at++;
            }
            at = putType(found, descriptor, at);
            for (; dimensions > 0; dimensions--) {
                found.append("[]");
            }
        }
        found.append(before == '(' ? "()" : ")");
    }

    private static int putType(StringBuilder found, String descriptor, int at) {
        char kind = descriptor.charAt(at);
        if (kind != 'L') {
            found.append(primitive(kind));
            return at + 1;
        }
        int end = descriptor.indexOf(';', at);
        found.append(descriptor.substring(descriptor.lastIndexOf('/', end) < at
            ? at + 1 : descriptor.lastIndexOf('/', end) + 1, end).replace('$', '.'));
        return end + 1;
    }

    private static String primitive(char kind) {
        switch (kind) {
            case 'Z':
                return "boolean";
            case 'B':
                return "byte";
            case 'C':
                return "char";
            case 'S':
                return "short";
            case 'I':
                return "int";
            case 'J':
                return "long";
            case 'F':
                return "float";
            default:
                return "double";
        }
    }
}
