package undermine.agent;

/** The operations that the hooks name, found once. */
final class Ops {
    static Operation open;
    static Operation create;
    static Operation read;
    static Operation write;
    static Operation fsync;
    static Operation truncate;
    static Operation closeFile;
    static Operation unlink;
    static Operation mkdir;
    static Operation rmdir;
    static Operation stat;
    static Operation list;
    static Operation rename;
    static Operation connect;
    static Operation accept;
    static Operation send;
    static Operation recv;
    static Operation close;
    static Operation threadStart;
    static Operation threadEnd;
    static Operation threadDie;

    private Ops() {
    }

    static void find(Table table) {
        open = table.operation("file.open");
        create = table.operation("file.create");
        read = table.operation("file.read");
        write = table.operation("file.write");
        fsync = table.operation("file.fsync");
        truncate = table.operation("file.truncate");
        closeFile = table.operation("file.close");
        unlink = table.operation("file.unlink");
        mkdir = table.operation("file.mkdir");
        rmdir = table.operation("file.rmdir");
        stat = table.operation("file.stat");
        list = table.operation("file.list");
        rename = table.operation("file.rename");
        connect = table.operation("net.connect");
        accept = table.operation("net.accept");
        send = table.operation("net.send");
        recv = table.operation("net.recv");
        close = table.operation("net.close");
        threadStart = table.operation("thread.start");
        threadEnd = table.operation("thread.end");
        threadDie = table.operation("thread.die");
    }
}
