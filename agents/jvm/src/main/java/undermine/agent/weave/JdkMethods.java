package undermine.agent.weave;

/**
 * The JDK's methods that are woven. A row has the class, the method with its descriptor, the hook at its entry, and
 * optionally a hook before each return.
 *
 * A hook is a class and method with its arguments: `this`, a parameter by its number, or a field of one of them (with its
 * type, and its class unless that is the woven one). With a leading `!` the method's end isn't woven; with a leading `*`
 * the method can show its data: it may get other data than it was called with, or its data may be changed when it ends. Each JDK has only some
 * of these methods.
 */
public final class JdkMethods {
    private static final String FD = "this.fd Ljava/io/FileDescriptor;";
    private static final String PATH = "this.path Ljava/lang/String;";
    private static final String BUFFER = "(Ljava/nio/ByteBuffer;)I";
    private static final String BUFFERS = "([Ljava/nio/ByteBuffer;II)J";
    private static final String OUT = "java/io/FileOutputStream";
    private static final String IN = "java/io/FileInputStream";
    private static final String RANDOM = "java/io/RandomAccessFile";
    private static final String FILE = "java/io/File";
    private static final String FILE_CHANNEL = "sun/nio/ch/FileChannelImpl";
    private static final String OPENING = "sun/nio/fs/UnixChannelFactory";
    private static final String FLAGS = OPENING + "$Flags";
    private static final String PROVIDER = "sun/nio/fs/UnixFileSystemProvider";
    private static final String SOCKET = "sun/nio/ch/NioSocketImpl";
    private static final String PEER =
            "this,this.address Ljava/net/InetAddress;,this.port I," + FD;
    private static final String CHANNEL = "sun/nio/ch/SocketChannelImpl";
    private static final String ENDS =
            "this,this.remoteAddress Ljava/net/SocketAddress;,this.localAddress Ljava/net/SocketAddress;";
    private static final String LISTENING = "sun/nio/ch/ServerSocketChannelImpl";
    private static final String DATAGRAMS = "sun/nio/ch/DatagramChannelImpl";
    private static final String TLS = "this.this$0 Lsun/security/ssl/SSLSocketImpl;";

    public static final String[][] FILES = {
        {OUT, "open(Ljava/lang/String;Z)V", "files/FileHooks.openWrite(" + FD + ",0)"},
        {OUT, "write(I)V", "*files/FileHooks.write1(" + FD + ")"},
        {OUT, "write([B)V", "*files/FileHooks.write(" + FD + ",0)"},
        {OUT, "write([BII)V", "*files/FileHooks.write(" + FD + ",2)"},
        {OUT, "close()V", "files/FileHooks.close(" + FD + ")"},
        {IN, "open(Ljava/lang/String;)V", "files/FileHooks.openRead(" + FD + ",0)"},
        {IN, "read()I", "files/FileHooks.readOne(" + FD + ")"},
        {IN, "read([B)I", "*files/FileHooks.read(" + FD + ",0)"},
        {IN, "read([BII)I", "*files/FileHooks.read(" + FD + ",2)"},
        {IN, "close()V", "files/FileHooks.close(" + FD + ")"},
        {RANDOM, "open(Ljava/lang/String;I)V", "files/FileHooks.openRandom(" + FD + ",0,1)"},
        {RANDOM, "read()I", "files/FileHooks.readOne(" + FD + ")"},
        {RANDOM, "read([B)I", "*files/FileHooks.read(" + FD + ",0)"},
        {RANDOM, "read([BII)I", "*files/FileHooks.read(" + FD + ",2)"},
        {RANDOM, "readShort()S", "files/FileHooks.read2(" + FD + ")"},
        {RANDOM, "readUnsignedShort()I", "files/FileHooks.read2(" + FD + ")"},
        {RANDOM, "readChar()C", "files/FileHooks.read2(" + FD + ")"},
        {RANDOM, "readInt()I", "files/FileHooks.read4(" + FD + ")"},
        {RANDOM, "readLong()J", "files/FileHooks.read8(" + FD + ")"},
        {RANDOM, "readLine()Ljava/lang/String;", "files/FileHooks.readLine(" + FD + ")"},
        {RANDOM, "write(I)V", "*files/FileHooks.write1(" + FD + ")"},
        {RANDOM, "write([B)V", "*files/FileHooks.write(" + FD + ",0)"},
        {RANDOM, "write([BII)V", "*files/FileHooks.write(" + FD + ",2)"},
        {RANDOM, "writeShort(I)V", "*files/FileHooks.write2(" + FD + ")"},
        {RANDOM, "writeChar(I)V", "*files/FileHooks.write2(" + FD + ")"},
        {RANDOM, "writeInt(I)V", "*files/FileHooks.write4(" + FD + ")"},
        {RANDOM, "writeLong(J)V", "*files/FileHooks.write8(" + FD + ")"},
        {RANDOM, "writeBytes(Ljava/lang/String;)V", "*files/FileHooks.write(" + FD + ",0)"},
        {RANDOM, "writeChars(Ljava/lang/String;)V", "*files/FileHooks.writeChars(" + FD + ",0)"},
        {RANDOM, "setLength(J)V", "files/FileHooks.truncate(" + FD + ")"},
        {RANDOM, "close()V", "files/FileHooks.close(" + FD + ")"},
        {"java/io/FileDescriptor", "sync()V", "files/FileHooks.sync(this)"},
        {FILE_CHANNEL, "read" + BUFFER, "*files/FileHooks.read(" + FD + ",0)"},
        {FILE_CHANNEL, "read" + BUFFERS, "*files/FileHooks.read(" + FD + ",0,1,2)"},
        {FILE_CHANNEL, "read(Ljava/nio/ByteBuffer;J)I", "*files/FileHooks.readAt(" + FD + ",0,1)"},
        {FILE_CHANNEL, "write" + BUFFER, "*files/FileHooks.write(" + FD + ",0)"},
        {FILE_CHANNEL, "write" + BUFFERS, "*files/FileHooks.write(" + FD + ",0,1,2)"},
        {FILE_CHANNEL, "write(Ljava/nio/ByteBuffer;J)I", "*files/FileHooks.write(" + FD + ",0)"},
        {FILE_CHANNEL, "transferTo(JJLjava/nio/channels/WritableByteChannel;)J", "files/FileHooks.transferTo(this," + FD + ",0,1,2)"},
        {FILE_CHANNEL, "transferFrom(Ljava/nio/channels/ReadableByteChannel;JJ)J", "files/FileHooks.write(" + FD + ",2)"},
        {FILE_CHANNEL, "force(Z)V", "files/FileHooks.force(" + FD + ")"},
        {FILE_CHANNEL, "truncate(J)Ljava/nio/channels/FileChannel;", "files/FileHooks.truncate(" + FD + ")"},
        {FILE_CHANNEL, "implCloseChannel()V", "files/FileHooks.close(" + FD + ")"},
        {FILE, "delete()Z", "files/FileHooks.delete(" + PATH + ")"},
        {FILE, "renameTo(Ljava/io/File;)Z", "files/FileHooks.rename(" + PATH + ",0.path Ljava/lang/String; java/io/File)"},
        {FILE, "mkdir()Z", "files/FileHooks.mkdir(" + PATH + ")"},
        {FILE, "createNewFile()Z", "files/FileHooks.createNew(" + PATH + ")"},
        {FILE, "normalizedList()[Ljava/lang/String;", "files/FileHooks.list(" + PATH + ")"},
        {FILE, "exists()Z", "files/FileHooks.stat(" + PATH + ")"},
        {FILE, "isDirectory()Z", "files/FileHooks.stat(" + PATH + ")"},
        {FILE, "isFile()Z", "files/FileHooks.stat(" + PATH + ")"},
        {FILE, "isHidden()Z", "files/FileHooks.stat(" + PATH + ")"},
        {FILE, "canRead()Z", "files/FileHooks.stat(" + PATH + ")"},
        {FILE, "canWrite()Z", "files/FileHooks.stat(" + PATH + ")"},
        {FILE, "canExecute()Z", "files/FileHooks.stat(" + PATH + ")"},
        {FILE, "length()J", "files/FileHooks.stat(" + PATH + ")"},
        {FILE, "lastModified()J", "files/FileHooks.stat(" + PATH + ")"},
        {OPENING, "open(ILsun/nio/fs/UnixPath;Ljava/lang/String;L" + FLAGS + ";I)Ljava/io/FileDescriptor;",
            "files/FileHooks.openPath(0,1,3.create Z " + FLAGS + ",3.createNew Z " + FLAGS + ")"},
        {OPENING, "open(ILsun/nio/fs/UnixPath;L" + FLAGS + ";I)Ljava/io/FileDescriptor;",
            "files/FileHooks.openPath(0,1,2.create Z " + FLAGS + ",2.createNew Z " + FLAGS + ")"},
        {PROVIDER, "implDelete(Ljava/nio/file/Path;Z)Z", "files/FileHooks.deletePath(0)"},
        {PROVIDER, "createDirectory(Ljava/nio/file/Path;[Ljava/nio/file/attribute/FileAttribute;)V",
            "files/FileHooks.mkdirPath(0)"},
        {PROVIDER, "move(Ljava/nio/file/Path;Ljava/nio/file/Path;[Ljava/nio/file/CopyOption;)V",
            "files/FileHooks.movePath(0,1)"},
        {PROVIDER, "copy(Ljava/nio/file/Path;Ljava/nio/file/Path;[Ljava/nio/file/CopyOption;)V",
            "files/FileHooks.copyPath(0,1)"},
        {PROVIDER, "createLink(Ljava/nio/file/Path;Ljava/nio/file/Path;)V", "files/FileHooks.createPath(0)"},
        {PROVIDER, "createSymbolicLink(Ljava/nio/file/Path;Ljava/nio/file/Path;[Ljava/nio/file/attribute/FileAttribute;)V",
            "files/FileHooks.createPath(0)"},
        {PROVIDER, "checkAccess(Ljava/nio/file/Path;[Ljava/nio/file/AccessMode;)V", "files/FileHooks.statPath(0)"},
        {PROVIDER, "readAttributes(Ljava/nio/file/Path;Ljava/lang/Class;[Ljava/nio/file/LinkOption;)"
            + "Ljava/nio/file/attribute/BasicFileAttributes;", "files/FileHooks.statPath(0)"},
        {PROVIDER, "readAttributesIfExists(Ljava/nio/file/Path;Ljava/lang/Class;[Ljava/nio/file/LinkOption;)"
            + "Ljava/nio/file/attribute/BasicFileAttributes;", "files/FileHooks.statPath(0)"},
        {"sun/nio/fs/AbstractFileSystemProvider",
            "readAttributes(Ljava/nio/file/Path;Ljava/lang/String;[Ljava/nio/file/LinkOption;)Ljava/util/Map;",
            "files/FileHooks.statPath(0)"},
        {PROVIDER, "exists(Ljava/nio/file/Path;[Ljava/nio/file/LinkOption;)Z", "files/FileHooks.stat(0)"},
        {PROVIDER, "exists(Ljava/nio/file/Path;)Z", "files/FileHooks.stat(0)"},
        {PROVIDER, "isDirectory(Ljava/nio/file/Path;)Z", "files/FileHooks.stat(0)"},
        {PROVIDER, "isRegularFile(Ljava/nio/file/Path;)Z", "files/FileHooks.stat(0)"},
        {PROVIDER, "newDirectoryStream(Ljava/nio/file/Path;Ljava/nio/file/DirectoryStream$Filter;)"
            + "Ljava/nio/file/DirectoryStream;", "files/FileHooks.listPath(0)"},
    };

    public static final String[][] NETWORK = {
        {SOCKET, "connect(Ljava/net/SocketAddress;I)V", "net/SocketHooks.connect(this,0,1)",
            "net/SocketHooks.connectedFrom(this.localport I,0)"},
        {SOCKET, "read([BII)I", "*net/SocketHooks.read(" + PEER + ",2)"},
        {SOCKET, "write([BII)V", "*net/SocketHooks.write(" + PEER + ",2)"},
        {SOCKET, "close()V", "net/SocketHooks.close(" + PEER + ")"},
        {SOCKET, "accept(Ljava/net/SocketImpl;)V", "net/SocketHooks.accept(this," + FD + ",0)"},
        {CHANNEL, "connect(Ljava/net/SocketAddress;)Z", "net/ChannelHooks.connectChannel(this,0)",
            "net/ChannelHooks.connectingFrom(this," + FD + ",0)"},
        {CHANNEL, "blockingConnect(Ljava/net/SocketAddress;J)V", "net/ChannelHooks.connectChannel(this,0,1)",
            "net/ChannelHooks.connectingFrom(this," + FD + ",0)"},
        {CHANNEL, "read" + BUFFER, "*net/ChannelHooks.readChannel(" + ENDS + "," + FD + ",0)"},
        {CHANNEL, "read" + BUFFERS, "*net/ChannelHooks.readChannel(" + ENDS + "," + FD + ",0,1,2)"},
        {CHANNEL, "write" + BUFFER, "*net/ChannelHooks.writeChannel(" + ENDS + "," + FD + ",0)"},
        {CHANNEL, "write" + BUFFERS, "*net/ChannelHooks.writeChannel(" + ENDS + "," + FD + ",0,1,2)"},
        {CHANNEL, "blockingRead([BIIJ)I", "*net/ChannelHooks.readBlocking(" + ENDS + ",2)"},
        {CHANNEL, "blockingWriteFully([BII)V", "*net/ChannelHooks.writeBlocking(" + ENDS + ",2)"},
        {LISTENING, "accept()Ljava/nio/channels/SocketChannel;",
            "net/ChannelHooks.acceptChannel(this,this.localAddress Ljava/net/SocketAddress;," + FD + ")"},
        {LISTENING, "blockingAccept(J)Ljava/nio/channels/SocketChannel;",
            "net/ChannelHooks.acceptChannel(this,this.localAddress Ljava/net/SocketAddress;," + FD + ")"},
        {"java/nio/channels/spi/AbstractInterruptibleChannel", "close()V", "net/ChannelHooks.closeChannel(this)"},
        {DATAGRAMS, "send(Ljava/nio/ByteBuffer;Ljava/net/SocketAddress;)I", "*net/DatagramHooks.sendTo(this," + FD + ",0,1)"},
        {DATAGRAMS, "blockingSend(Ljava/net/DatagramPacket;)V", "*net/DatagramHooks.sendPacket(this,0)"},
        {DATAGRAMS, "write" + BUFFER,
            "*net/DatagramHooks.sendTo(this," + FD + ",0,this.remoteAddress Ljava/net/InetSocketAddress;)"},
        {DATAGRAMS, "write" + BUFFERS,
            "*net/DatagramHooks.sendTo(this," + FD + ",0,1,2,this.remoteAddress Ljava/net/InetSocketAddress;)"},
        {DATAGRAMS, "read" + BUFFERS, "*net/DatagramHooks.receive(this," + FD + ",0,1,2)"},
        {DATAGRAMS, "receive(Ljava/nio/ByteBuffer;)Ljava/net/SocketAddress;", "*net/DatagramHooks.receive(this," + FD + ",0)"},
        {DATAGRAMS, "blockingReceive(Ljava/nio/ByteBuffer;J)Ljava/net/SocketAddress;",
            "*net/DatagramHooks.receiveBlocking(this,0)"},
        {DATAGRAMS, "blockingReceive(Ljava/net/DatagramPacket;J)V", "*net/DatagramHooks.receivePacket(this,0)"},
        {DATAGRAMS, "read" + BUFFER, "*net/DatagramHooks.receive(this," + FD + ",0)"},
        {"sun/security/ssl/SSLSocketImpl$AppInputStream", "read([BII)I", "*net/TlsHooks.readSecure(" + TLS + ",2)"},
        {"sun/security/ssl/SSLSocketImpl$AppOutputStream", "write([BII)V", "*net/TlsHooks.writeSecure(" + TLS + ",2)"},
        {"sun/security/ssl/SSLSocketImpl", "startHandshake()V", "net/TlsHooks.handshake(this)"},
        {"sun/security/ssl/SSLSocketImpl", "close()V", "net/TlsHooks.closeSecure(this)"},
    };

    public static final String[][] THREADS = {
        {"java/lang/Thread", "start()V", "!sync/ThreadHooks.start(this)"},
        {"java/lang/Thread", "start(Ljdk/internal/vm/ThreadContainer;)V", "!sync/ThreadHooks.start(this)"},
        {"java/lang/VirtualThread", "start(Ljdk/internal/vm/ThreadContainer;)V", "!sync/ThreadHooks.start(this)"},
        {"java/lang/Thread", "exit()V", "!sync/ThreadHooks.end(this)"},
        {"jdk/internal/vm/StackableScope", "popAll()V", "!sync/ThreadHooks.endVirtual()"}, // the last method of a virtual thread
        {"java/lang/Thread", "dispatchUncaughtException(Ljava/lang/Throwable;)V", "!sync/ThreadHooks.die(this,0)"},
    };

    private static final String JUC = "java/util/concurrent/";
    private static final String FORK_JOIN = JUC + "ForkJoinTask";
    private static final String IN_FUTURE = JUC + "CompletableFuture";
    private static final String FIRE = "tryFire(I)Ljava/util/concurrent/CompletableFuture;";
    private static final String COMPLETIONS = JUC + "ExecutorCompletionService";
    private static final String DONE = "this.completionQueue Ljava/util/concurrent/BlockingQueue;";
    private static final String SUBSCRIPTION = JUC + "SubmissionPublisher$BufferedSubscription";
    private static final String FIRING = "sync/HandoverHooks.take(this)";
    private static final String FIRING_BOTH = "sync/HandoverHooks.takeOfBoth(this)";
    private static final String OF_TWO = "(L" + IN_FUTURE + ";L" + IN_FUTURE + "$BiCompletion;)V";
    private static final String DELAYED = "L" + JUC + "DelayScheduler$ScheduledForkJoinTask;";

    /**
     * Woven only if hand-overs are observed. With a leading `~`, calls of `run` inside the method are replaced by the
     * hook.
     */
    public static final String[][] HANDOVER = {
        {JUC + "ThreadPoolExecutor", "execute(Ljava/lang/Runnable;)V", "!sync/HandoverHooks.give(0)"},
        {JUC + "ThreadPoolExecutor", "runWorker(Ljava/util/concurrent/ThreadPoolExecutor$Worker;)V",
            "~sync/HandoverHooks.run(0)"},
        {JUC + "ScheduledThreadPoolExecutor", "delayedExecute(Ljava/util/concurrent/RunnableScheduledFuture;)V",
            "!sync/HandoverHooks.give(0)"},
        {"java/util/Timer", "sched(Ljava/util/TimerTask;JJ)V", "!sync/HandoverHooks.give(0)"},
        {"java/util/TimerThread", "mainLoop()V", "~sync/HandoverHooks.run(0)"},
        {JUC + "ForkJoinPool", "externalSubmit(L" + FORK_JOIN + ";)L" + FORK_JOIN + ";", "!sync/HandoverHooks.giveOnce(0)"},
        {JUC + "ForkJoinPool", "poolSubmit(ZL" + FORK_JOIN + ";)L" + FORK_JOIN + ";", "!sync/HandoverHooks.giveOnce(1)"},
        {JUC + "ForkJoinPool", "scheduleDelayedTask(" + DELAYED + ")" + DELAYED, "!sync/HandoverHooks.giveOnce(0)"},
        {FORK_JOIN, "fork()L" + FORK_JOIN + ";", "!sync/HandoverHooks.giveOnce(this)"},
        {FORK_JOIN, "doExec()I", "sync/HandoverHooks.take(this)"},
        {FORK_JOIN, "doExec()V", "sync/HandoverHooks.take(this)"},
        {COMPLETIONS, "submit(Ljava/util/concurrent/Callable;)Ljava/util/concurrent/Future;",
            "!sync/HandoverHooks.submit(" + DONE + ")"},
        {COMPLETIONS, "submit(Ljava/lang/Runnable;Ljava/lang/Object;)Ljava/util/concurrent/Future;",
            "!sync/HandoverHooks.submit(" + DONE + ")"},
        {COMPLETIONS, "take()Ljava/util/concurrent/Future;", "sync/HandoverHooks.await(" + DONE + ")"},
        {COMPLETIONS, "poll()Ljava/util/concurrent/Future;", "sync/HandoverHooks.poll(" + DONE + ")"},
        {COMPLETIONS, "poll(JLjava/util/concurrent/TimeUnit;)Ljava/util/concurrent/Future;",
            "sync/HandoverHooks.await(" + DONE + ",0,1)"},
        {COMPLETIONS + "$QueueingFuture", "done()V",
            "!sync/HandoverHooks.done(" + DONE + ",this.task Ljava/util/concurrent/Future;)"},
        {SUBSCRIPTION, "offer(Ljava/lang/Object;Z)I", "sync/HandoverHooks.offer(0)"},
        {SUBSCRIPTION, "retryOffer(Ljava/lang/Object;)I", "sync/HandoverHooks.offer(0)"}, // of a refused item
        {SUBSCRIPTION, "consumeNext(Ljava/util/concurrent/Flow$Subscriber;Ljava/lang/Object;)Z", "sync/HandoverHooks.take(1)"},
        {IN_FUTURE, "unipush(L" + IN_FUTURE + "$Completion;)V", "!sync/HandoverHooks.giveCallback(0)"},
        {IN_FUTURE + "$UniApply", FIRE, FIRING},
        {IN_FUTURE + "$UniAccept", FIRE, FIRING},
        {IN_FUTURE + "$UniRun", FIRE, FIRING},
        {IN_FUTURE + "$UniWhenComplete", FIRE, FIRING},
        {IN_FUTURE + "$UniHandle", FIRE, FIRING},
        {IN_FUTURE + "$UniCompose", FIRE, FIRING},
        {IN_FUTURE + "$UniExceptionally", FIRE, FIRING},
        {IN_FUTURE + "$UniComposeExceptionally", FIRE, FIRING},
        {IN_FUTURE, "bipush" + OF_TWO, "!sync/HandoverHooks.giveCallback(1)"},
        {IN_FUTURE, "orpush" + OF_TWO, "!sync/HandoverHooks.giveCallback(1)"},
        {IN_FUTURE + "$BiApply", FIRE, FIRING_BOTH},
        {IN_FUTURE + "$BiAccept", FIRE, FIRING_BOTH},
        {IN_FUTURE + "$BiRun", FIRE, FIRING_BOTH},
        {IN_FUTURE + "$OrApply", FIRE, FIRING},
        {IN_FUTURE + "$OrAccept", FIRE, FIRING},
        {IN_FUTURE + "$OrRun", FIRE, FIRING},
    };

    /** Woven only if waits are observed. */
    public static final String[][] SYNC = {
        {JUC + "FutureTask", "finishCompletion()V", "!sync/HandoverHooks.set(this)"},
        {IN_FUTURE, "postComplete()V", "!sync/HandoverHooks.set(this)"},
        {FORK_JOIN, "signalWaiters()V", "!sync/HandoverHooks.set(this)"},
        {FORK_JOIN, "trySetThrown(Ljava/lang/Throwable;)I", "!sync/HandoverHooks.set(this)"},
        {FORK_JOIN, "trySetThrown(Ljava/lang/Throwable;)Z", "!sync/HandoverHooks.set(this)"},
        {JUC + "FutureTask", "awaitDone(ZJ)I", "sync/HandoverHooks.await(this,0,1)"},
        {JUC + "ThreadPoolExecutor", "terminated()V", "!sync/HandoverHooks.ended(this)"},
    };

    private JdkMethods() {
    }
}
