package undermine.agent.stacks;

import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import undermine.agent.classfiles.ClassBytes;
import undermine.agent.wire.Cursor;
import undermine.agent.wire.EventFile;

/**
 * Finds the call sites and stacks of the target, and defines each one once in the event file. Nothing here keeps a class
 * alive.
 */
public final class Sites {
    /** The maximum number of frames in a stack. */
    public static final int DEPTH_MAX = 30;
    /** The maximum number of frames that are looked at, of any kind: recursion may be very deep. */
    static final int WALK_MAX = 1000;
    static final int HASH_START = 17;
    private static final int STACKS_MAX = 50_000;
    private static final int WALKS_MAX = 100;
    private static final int TRACED_MAX = 20_000;
    private static final String[] LIBRARY = {"java.", "javax.", "jdk.", "sun.", "com.sun."};
    private static final String AGENT = "undermine.agent.";
    private static final String UNKNOWN = "?:?#0";

    private final String[] packages;
    private final EventFile file;
    /** Chosen at the first walk. */
    private volatile Walker walker;
    /** Counts walks until WALKS_MAX; then stacks that recur are recognised without a walk. */
    private volatile int walks;
    /** A hash table with open addressing. Read without a lock, since stacks never change. */
    private volatile Stack[] stacks = new Stack[1024];
    private int stackCount;
    /** Sites by the numbers in woven code. */
    private final SiteTable numbered = new SiteTable();
    /** Sites of stack traces, which have only line numbers. */
    private final ConcurrentHashMap<String, Site> traced = new ConcurrentHashMap<String, Site>();
    private final ClassValue<ClassSites> byClass = new ClassValue<ClassSites>() {
        @Override
        protected ClassSites computeValue(Class<?> type) {
            return new ClassSites(isOfTarget(type), isOfAgent(type.getName()));
        }
    };

    public Sites(List<String> packages, EventFile file) {
        this(packages, file, null);
    }

    public Sites(List<String> packages, EventFile file, Walker walker) {
        this.packages = packages.toArray(new String[0]);
        this.file = file;
        this.walker = walker;
        walks = walker == null ? 0 : WALKS_MAX;
    }

    /** True if this class belongs to the target. */
    public boolean isOfTarget(Class<?> type) {
        return isOfTarget(type.getName());
    }

    /**
     * Hidden classes, with a `/` in their names, belong to lambdas and are left out, since other walkers don't show them.
     */
    public boolean isOfTarget(String className) {
        if (isOfAgent(className) || className.indexOf('/') >= 0) {
            return false;
        }
        for (String name : packages) {
            if (isIn(className, name)) {
                return true;
            }
        }
        return packages.length == 0 && !isOfLibrary(className);
    }

    private static boolean isIn(String className, String name) {
        if (!className.startsWith(name)) {
            return false;
        }
        char next = className.length() == name.length() ? '.' : className.charAt(name.length());
        return next == '.' || next == '$';
    }

    public static boolean isOfAgent(String className) {
        return className.startsWith(AGENT);
    }

    private static boolean isOfLibrary(String className) {
        for (String prefix : LIBRARY) {
            if (className.startsWith(prefix)) {
                return true;
            }
        }
        return false;
    }

    ClassSites ofClass(Class<?> type) {
        return byClass.get(type);
    }

    /**
     * The stack of the current thread, reduced to the target's frames. The caller has set `busy`, since class loaders may
     * be asked.
     */
    public Stack here(Cursor cursor) {
        WalkRoom room = WalkRoom.of(cursor);
        if (room.walking) {
            return nowhere(cursor);
        }
        room.walking = true;
        try {
            Walker chosen = walks < WALKS_MAX ? choose() : walker;
            return chosen.here(this, cursor);
        } finally {
            room.walking = false;
        }
    }

    /** Join the three parts in which woven code passes the number of a call site. */
    public static long number(int high, int middle, int low) {
        return (long) (high & 0xffff) << 32 | (long) (middle & 0xffff) << 16 | low & 0xffff;
    }

    /** The site with this number in woven code. The stack is walked only at its first use. */
    public Site numbered(Cursor cursor, long number) {
        Site known = numbered.get(number >>> 16, number);
        if (known == null) {
            known = here(cursor).innermost();
            numbered.put(number >>> 16, number, known);
        }
        return known;
    }

    /** The stack that consists of this site only. */
    public Stack only(Cursor cursor, Site site) {
        Stack found = site.only;
        if (found == null) {
            found = stack(cursor, new Site[] {site}, 1, mix(HASH_START, site.id));
            site.only = found;
        }
        return found;
    }

    /** Choose the walker. After WALKS_MAX walks it pays off to recognise stacks that recur. */
    private synchronized Walker choose() {
        if (walker == null) {
            walker = Walker.best();
        }
        if (++walks == WALKS_MAX) {
            walker = TraceWalker.over(walker);
        }
        return walker;
    }

    /** The stack at which an exception was created. */
    public Stack of(Cursor cursor, Throwable error) {
        StackTraceElement[] trace = traceOf(error);
        for (StackTraceElement element : trace) {
            if (isOfTarget(element.getClassName())) {
                return traced(cursor, trace);
            }
        }
        return here(cursor);
    }

    private static StackTraceElement[] traceOf(Throwable error) {
        try {
            return error.getStackTrace();
        } catch (RuntimeException troubles) { // the method may be the target's own
            return new StackTraceElement[0];
        }
    }

    /** The stack that a stack trace shows. */
    Stack traced(Cursor cursor, StackTraceElement[] trace) {
        Site[] found = new Site[DEPTH_MAX];
        int count = 0;
        int hash = HASH_START;
        StackTraceElement inner = null;
        for (int i = 0; i < trace.length && count < DEPTH_MAX; i++) {
            String name = trace[i].getClassName();
            if (isOfTarget(name)) {
                found[count] = frame(cursor, trace[i]);
                hash = mix(hash, found[count++].id);
            } else if (inner == null && !isOfAgent(name)) {
                inner = trace[i];
            }
        }
        if (count > 0) {
            return stack(cursor, found, count, hash);
        }
        return inner == null ? nowhere(cursor) : alone(cursor, frame(cursor, inner));
    }

    private Site frame(Cursor cursor, StackTraceElement element) {
        String key = element.getClassName() + "." + element.getMethodName() + ":" + element.getLineNumber();
        Site known = traced.get(key);
        if (known == null) {
            String loc = locOf(element, callsOf(element.getClassName()));
            known = new Site(file.frame(cursor, loc, Math.max(element.getLineNumber(), 0)), loc);
            if (traced.size() >= TRACED_MAX) {
                traced.clear();
            }
            traced.put(key, known);
        }
        return known;
    }

    /** The name of a trace's call site: the first call of the line, since a trace has no more than the line. */
    private static String locOf(StackTraceElement element, CallCounter calls) {
        String name = element.getMethodName();
        CallCounter.Method method = calls == null ? null : calls.atLine(name, element.getLineNumber());
        if (method == null) {
            return Locs.of(element.getClassName(), name, "", calls) + "#0";
        }
        int ordinal = method.ordinal(method.bciOfLine(element.getLineNumber()));
        return Locs.of(element.getClassName(), name, method.descriptor, calls) + "#" + ordinal;
    }

    private static CallCounter callsOf(String className) {
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        byte[] bytes = loader == null || isOfLibrary(className) ? null : ClassBytes.of(loader, className);
        return bytes == null ? null : ClassSites.parse(bytes);
    }

    /** Define a site that hasn't been seen before. */
    Site define(Cursor cursor, Class<?> type, String method, String descriptor, int bci, int line) {
        ClassSites code = ofClass(type);
        CallCounter calls = code.calls(type);
        synchronized (code) {
            Site known = find(code, method, descriptor, bci);
            if (known != null) {
                return known;
            }
            CallCounter.Method found = calls == null ? null : calls.method(method, descriptor);
            Site frame = made(cursor, Locs.of(type.getName(), method, descriptor, calls), found, bci, line);
            code.put(method, descriptor, bci, frame);
            return frame;
        }
    }

    /** Create a site in a method with this name; the caller keeps it. `method` may be null. */
    Site made(Cursor cursor, String name, CallCounter.Method method, int bci, int line) {
        String loc = name + "#" + (method == null ? 0 : method.ordinal(bci));
        return new Site(file.frame(cursor, loc, Math.max(line, 0)), loc);
    }

    /** Look again: another thread may have been faster. */
    private static Site find(ClassSites code, String method, String descriptor, int bci) {
        Site found = code.at(bci);
        found = found == ClassSites.ASK ? code.at(method, bci) : found;
        return found == ClassSites.ASK ? code.at(method + descriptor, bci) : found;
    }

    static int mix(int hash, int id) {
        return (hash ^ id) * 0x01000193;
    }

    /** The stack of these frames. */
    public Stack stack(Cursor cursor, Site[] frames) {
        int count = Math.min(frames.length, DEPTH_MAX);
        int hash = HASH_START;
        for (int i = 0; i < count; i++) {
            hash = mix(hash, frames[i].id);
        }
        return stack(cursor, frames, count, hash);
    }

    public Stack stack(Cursor cursor, Site[] frames, int count, int hash) {
        Stack[] table = stacks;
        int mask = table.length - 1;
        for (int at = (hash ^ hash >>> 15) & mask;; at = at + 1 & mask) {
            Stack found = table[at];
            if (found == null) {
                return add(cursor, frames, count, hash);
            }
            if (found.is(frames, count, hash)) {
                return found;
            }
        }
    }

    private synchronized Stack add(Cursor cursor, Site[] frames, int count, int hash) {
        Stack[] table = stacks;
        if (stackCount >= STACKS_MAX) { // a target with endless different stacks: stacks that recur are defined again
            stackCount = 0;
            table = new Stack[1024];
        } else if (2 * stackCount >= table.length) {
            table = grown(table);
        }
        int at = indexOf(table, frames, count, hash);
        if (table[at] == null) {
            Site[] own = Arrays.copyOf(frames, count);
            table[at] = new Stack(file.stack(cursor, ids(own)), own, hash);
            stackCount++;
        }
        stacks = table;
        return table[at];
    }

    private static int[] ids(Site[] frames) {
        int[] found = new int[frames.length];
        for (int i = 0; i < found.length; i++) {
            found[i] = frames[i].id;
        }
        return found;
    }

    /** The index of this stack in the table, or of the free entry for it. */
    private static int indexOf(Stack[] table, Site[] frames, int count, int hash) {
        int mask = table.length - 1;
        int at = (hash ^ hash >>> 15) & mask;
        while (table[at] != null && !table[at].is(frames, count, hash)) {
            at = at + 1 & mask;
        }
        return at;
    }

    private static Stack[] grown(Stack[] table) {
        Stack[] larger = new Stack[2 * table.length];
        for (Stack stack : table) {
            if (stack != null) {
                int at = (stack.hash() ^ stack.hash() >>> 15) & larger.length - 1;
                while (larger[at] != null) {
                    at = at + 1 & larger.length - 1;
                }
                larger[at] = stack;
            }
        }
        return larger;
    }

    /** The stack for a thread without any frame of the target: this frame only. */
    Stack alone(Cursor cursor, Site frame) {
        Stack found = stack(cursor, new Site[] {frame}, 1, mix(HASH_START, frame.id));
        found.isAlone = true;
        return found;
    }

    Stack nowhere(Cursor cursor) {
        Site known = traced.get(UNKNOWN);
        if (known == null) {
            known = new Site(file.frame(cursor, UNKNOWN, 0), UNKNOWN);
            traced.put(UNKNOWN, known);
        }
        return alone(cursor, known);
    }
}
