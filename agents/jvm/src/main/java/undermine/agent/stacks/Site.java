package undermine.agent.stacks;

/** A call site: its id in the event file, and its name, which is the same in every run. */
public final class Site {
    final int id;
    final String loc;
    private String function;
    /** The stack that consists of this site only, once it has been asked for. */
    volatile Stack only;

    public Site(int id, String loc) {
        this.id = id;
        this.loc = loc;
    }

    /** True if both sites are in the same method. */
    boolean isBeside(Site other) {
        return this == other || function().equals(other.function());
    }

    String function() {
        String found = function;
        if (found == null) {
            int end = loc.lastIndexOf('#');
            found = end < 0 ? loc : loc.substring(0, end);
            function = found;
        }
        return found;
    }
}
