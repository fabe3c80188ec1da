package undermine.agent.operations;

/** The object of an operation: its raw name (`resource`) and the template made from it (`target`). */
public final class Subject {
    public static final Subject NOTHING = new Subject("", "", false);
    /** Stands between target and content in the event file. */
    public static final String CONTENT_MARK = "\u001f";
    public static final int CONTENT_MAX = 64;

    public final String target;
    public final String resource;
    /** True for files below the node's own folder. */
    public final boolean onDisk;
    /** Tells operations with the same target apart; a trigger may name it. Empty: nothing does. */
    public final String fullContent;
    /** The same if it is part of points, else empty. */
    public final String content;

    /** The ids of its texts in the event file. Threads that set them at the same time set the same ids. */
    public int targetId;
    public int resourceId;
    public volatile boolean isDefined;
    /** True if no other subject has this resource: its text need not be looked up. */
    public boolean isUnique;

    public Subject(String target, String resource, boolean onDisk) {
        this(target, resource, onDisk, "", false);
    }

    public Subject(String target, String resource, boolean onDisk, String content, boolean isUsed) {
        this.target = target;
        this.resource = resource;
        this.onDisk = onDisk;
        this.fullContent = content;
        this.content = isUsed ? content : "";
    }

    /** The target as it is in the event file: with the content, if that is used. */
    public String described() {
        return content.isEmpty() ? target : target + CONTENT_MARK + content;
    }

    /** A subject whose resource no other one has. */
    public static Subject unique(String target, String resource) {
        Subject subject = new Subject(target, resource, false);
        subject.isUnique = true;
        return subject;
    }
}
