package undermine.agent;

/** What an operation acts on: a raw name (`resource`) and the template made from it (`target`). */
final class Subject {
    final String target;
    final String resource;
    /** True for files below the node's own folder. */
    final boolean onDisk;

    Subject(String target, String resource, boolean onDisk) {
        this.target = target;
        this.resource = resource;
        this.onDisk = onDisk;
    }
}
