package undermine.agent;

/** What an operation acts on: a raw name (`resource`) and the template made from it (`target`). */
final class Subject {
    final String target;
    final String resource;
    /** True for files below the node's own folder. */
    final boolean onDisk;

    /** What its texts are in the event file, once they are. Threads that find that out at the same time find the same. */
    int targetId;
    int resourceId;
    volatile boolean isDefined;
    /** True if nothing else has this resource: its text need not be looked up. */
    boolean isUnique;

    Subject(String target, String resource, boolean onDisk) {
        this.target = target;
        this.resource = resource;
        this.onDisk = onDisk;
    }

    /** One that no other is like. */
    static Subject unique(String target, String resource) {
        Subject subject = new Subject(target, resource, false);
        subject.isUnique = true;
        return subject;
    }
}
