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
    /** Null unless they are to be observed. */
    static Operation rawSend;
    static Operation rawRecv;
    static Operation acquire;
    static Operation release;
    static Operation semAcquire;
    static Operation semRelease;
    static Operation condWait;
    static Operation condNotify;
    static Operation eventWait;
    static Operation eventSet;
    static Operation barrierWait;
    static Operation futureWait;
    static Operation futureSet;
    static Operation join;
    static Operation queuePut;
    static Operation queueGet;
    static Operation give;
    static Operation take;
    static Operation poll;
    static Operation clock;
    static Operation sleep;
    static Operation timeout;
    static Operation threadStart;
    static Operation threadEnd;
    static Operation threadDie;

    private Ops() {
    }

    static void find(Table table, Config config) {
        findObserved(table, config);
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

    private static void findObserved(Table table, Config config) {
        boolean isRaw = config.observes("raw");
        rawSend = isRaw ? table.operation("raw.send") : null;
        rawRecv = isRaw ? table.operation("raw.recv") : null;
        boolean isSync = config.observes("sync");
        acquire = isSync ? table.operation("lock.acquire") : null;
        release = isSync ? table.operation("lock.release") : null;
        semAcquire = isSync ? table.operation("sem.acquire") : null;
        semRelease = isSync ? table.operation("sem.release") : null;
        condWait = isSync ? table.operation("cond.wait") : null;
        condNotify = isSync ? table.operation("cond.notify") : null;
        eventWait = isSync ? table.operation("event.wait") : null;
        eventSet = isSync ? table.operation("event.set") : null;
        barrierWait = isSync ? table.operation("barrier.wait") : null;
        futureWait = isSync ? table.operation("future.wait") : null;
        futureSet = isSync ? table.operation("future.set") : null;
        join = isSync ? table.operation("join") : null;
        boolean isHandover = config.observes("handover");
        queuePut = isHandover ? table.operation("queue.put") : null;
        queueGet = isHandover ? table.operation("queue.get") : null;
        give = isHandover ? table.operation("handover.give") : null;
        take = isHandover ? table.operation("handover.take") : null;
        poll = isHandover ? table.operation("poll") : null;
        boolean isTime = config.observes("time");
        clock = isTime ? table.operation("clock") : null;
        sleep = isTime ? table.operation("sleep") : null;
        timeout = isTime ? table.operation("timeout") : null;
    }
}
