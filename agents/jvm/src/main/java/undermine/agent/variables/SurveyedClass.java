package undermine.agent.variables;

import java.util.concurrent.atomic.AtomicInteger;

/** A class of the target at which a survey may start. */
final class SurveyedClass {
    /** Its name as a path begins: `a.b:Outer.Inner`. */
    final String text;
    final VariableRoot root;
    /** True if it was loaded, or an instance was made, since the last search. */
    volatile boolean isNew = true;
    /** True if it has few living instances, so that the newest one is the one that is meant. */
    boolean isFew;
    /** True if paths start at its instances. */
    boolean isStart;
    private final AtomicInteger made = new AtomicInteger();

    SurveyedClass(String name) {
        text = textOf(name);
        root = new VariableRoot(name);
    }

    /** True if a path can name this class: an anonymous one, for example, has no name. */
    static boolean isNameable(String name) {
        String text = textOf(name);
        return !text.endsWith(".") && text.indexOf("..") < 0 && new VariablePath(text).className.equals(name);
    }

    private static String textOf(String name) {
        int dot = name.lastIndexOf('.');
        return name.substring(0, Math.max(dot, 0)) + ":" + name.substring(dot + 1).replace('$', '.');
    }

    /** An instance was made. If there were many, none of them is remembered from now on. */
    void made(Object instance) {
        if (isCommon() || instance instanceof Throwable || instance instanceof Enum || !root.made(instance)) {
            return;
        }
        if (made.incrementAndGet() > Survey.MADE_MAX) {
            root.forget();
        } else {
            isNew = true;
        }
    }

    /** True if there were too many instances. */
    boolean isCommon() {
        return made.get() > Survey.MADE_MAX;
    }
}
