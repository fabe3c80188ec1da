package undermine.agent.operations;

/** A decision about the data of an operation: it is asked once the data is known. */
public interface DataChange {
    /** The bytes to use instead of these, or null. Never changes the given array. The caller has set `busy`. */
    byte[] of(byte[] data);

    /** Change what a file has at the bytes that are about to be read, if any. The caller has set `busy`. */
    void inFile(String path, long start, long size);
}
