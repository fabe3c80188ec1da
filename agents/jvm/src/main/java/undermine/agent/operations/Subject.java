package undermine.agent.operations;

/** What an operation acts on: its raw name (`resource`) and the template made from it (`target`). */
public final class Subject {
    public static final Subject NOTHING = new Subject("", "", false);

    public final String target;
    public final String resource;
    /** True for files below the node's own folder. */
    public final boolean onDisk;

    /** The ids of its texts in the event file. Threads that set them at the same time set the same ids. */
    public int targetId;
    public int resourceId;
    public volatile boolean isDefined;
    /** True if no other subject has this resource: its text need not be looked up. */
    public boolean isUnique;

    public Subject(String target, String resource, boolean onDisk) {
        this.target = target;
        this.resource = resource;
        this.onDisk = onDisk;
    }

    /** A subject whose resource no other one has. */
    public static Subject unique(String target, String resource) {
        Subject subject = new Subject(target, resource, false);
        subject.isUnique = true;
        return subject;
    }
}
