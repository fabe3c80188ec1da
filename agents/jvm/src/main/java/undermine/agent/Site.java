package undermine.agent;

/** A call site: its id among the frames of the event file and its name, which is the same in every run. */
final class Site {
    final int id;
    final String loc;

    Site(int id, String loc) {
        this.id = id;
        this.loc = loc;
    }
}
