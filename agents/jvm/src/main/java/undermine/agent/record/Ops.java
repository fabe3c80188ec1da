package undermine.agent.record;

import undermine.agent.faults.DecisionTable;
import undermine.agent.operations.Operation;
import undermine.agent.wire.Config;

/** The operations that hooks use, looked up once. */
public final class Ops {
    public static Operation open;
    public static Operation create;
    public static Operation read;
    public static Operation write;
    public static Operation fsync;
    public static Operation truncate;
    public static Operation closeFile;
    public static Operation unlink;
    public static Operation mkdir;
    public static Operation rmdir;
    public static Operation stat;
    public static Operation list;
    public static Operation rename;
    public static Operation connect;
    public static Operation accept;
    public static Operation send;
    public static Operation recv;
    public static Operation close;
    static Operation sample;
    /** From here on: null unless the family is observed. */
    static Operation rawSend;
    public static Operation rawRecv;
    public static Operation got;
    public static Operation acquire;
    public static Operation release;
    public static Operation semAcquire;
    public static Operation semRelease;
    public static Operation condWait;
    public static Operation condNotify;
    public static Operation eventWait;
    public static Operation eventSet;
    public static Operation barrierWait;
    public static Operation futureWait;
    public static Operation futureSet;
    public static Operation join;
    public static Operation queuePut;
    public static Operation queueGet;
    public static Operation give;
    public static Operation take;
    public static Operation poll;
    public static Operation clock;
    public static Operation sleep;
    public static Operation timeout;
    public static Operation heapRead;
    public static Operation heapWrite;
    public static Operation tokens;
    public static Operation threadStart;
    public static Operation threadEnd;
    public static Operation threadDie;

    private Ops() {
    }

    static void find(DecisionTable table, Config config) {
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
        sample = table.operation("variable.sample");
        threadStart = table.operation("thread.start");
        threadEnd = table.operation("thread.end");
        threadDie = table.operation("thread.die");
    }

    private static void findObserved(DecisionTable table, Config config) {
        boolean isRaw = config.observes("raw");
        rawSend = isRaw ? table.operation("raw.send") : null;
        rawRecv = isRaw ? table.operation("raw.recv") : null;
        got = isRaw ? table.operation("db.got") : null;
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
        heapRead = config.heap ? table.operation("heap.read") : null;
        heapWrite = config.heap ? table.operation("heap.write") : null;
        tokens = config.content ? table.operation("content.tokens") : null;
        if (config.heap) {
            CurrentHandler.find(table);
        }
    }
}
