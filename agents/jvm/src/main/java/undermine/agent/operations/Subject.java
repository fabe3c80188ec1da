package undermine.agent.operations;

/** What an operation acts on: a raw name (`resource`) and the template made from it (`target`). */
public final class Subject {
    public static final Subject NOTHING = new Subject("", "", false);

    public final String target;
    public final String resource;
    /** True for files below the node's own folder. */
    public final boolean onDisk;

    /** What its texts are in the event file, once they are. Threads that find that out at the same time find the same. */
    public int targetId;
    public int resourceId;
    public volatile boolean isDefined;
    /** True if nothing else has this resource: its text need not be looked up. */
    public boolean isUnique;

    public Subject(String target, String resource, boolean onDisk) {
        this.target = target;
        this.resource = resource;
        this.onDisk = onDisk;
    }

    /** One that no other is like. */
    public static Subject unique(String target, String resource) {
        Subject subject = new Subject(target, resource, false);
        subject.isUnique = true;
        return subject;
    }
}
