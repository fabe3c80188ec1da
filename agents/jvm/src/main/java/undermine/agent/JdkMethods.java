package undermine.agent;

/**
 * The methods of the JDK that are woven: owner, name with descriptor, entry, and what is called at its end beside the end.
 *
 * An entry is a hook and what it is given: `this`, a parameter by its number, or a field of one of them (with its type, and
 * its owner unless it is the class itself). One that begins with `!` has no end. Each JDK has some of these methods only.
 */
final class JdkMethods {
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

    static final String[][] FILES = {
        {OUT, "open(Ljava/lang/String;Z)V", "FileHooks.openWrite(" + FD + ",0)"},
        {OUT, "write(I)V", "FileHooks.write1(" + FD + ")"},
        {OUT, "write([B)V", "FileHooks.write(" + FD + ",0)"},
        {OUT, "write([BII)V", "FileHooks.write(" + FD + ",2)"},
        {OUT, "close()V", "FileHooks.close(" + FD + ")"},
        {IN, "open(Ljava/lang/String;)V", "FileHooks.openRead(" + FD + ",0)"},
        {IN, "read()I", "FileHooks.readOne(" + FD + ")"},
        {IN, "read([B)I", "FileHooks.read(" + FD + ",0)"},
        {IN, "read([BII)I", "FileHooks.read(" + FD + ",2)"},
        {IN, "close()V", "FileHooks.close(" + FD + ")"},
        {RANDOM, "open(Ljava/lang/String;I)V", "FileHooks.openRandom(" + FD + ",0,1)"},
        {RANDOM, "read()I", "FileHooks.readOne(" + FD + ")"},
        {RANDOM, "read([B)I", "FileHooks.read(" + FD + ",0)"},
        {RANDOM, "read([BII)I", "FileHooks.read(" + FD + ",2)"},
        {RANDOM, "readShort()S", "FileHooks.read2(" + FD + ")"},
        {RANDOM, "readUnsignedShort()I", "FileHooks.read2(" + FD + ")"},
        {RANDOM, "readChar()C", "FileHooks.read2(" + FD + ")"},
        {RANDOM, "readInt()I", "FileHooks.read4(" + FD + ")"},
        {RANDOM, "readLong()J", "FileHooks.read8(" + FD + ")"},
        {RANDOM, "readLine()Ljava/lang/String;", "FileHooks.readLine(" + FD + ")"},
        {RANDOM, "write(I)V", "FileHooks.write1(" + FD + ")"},
        {RANDOM, "write([B)V", "FileHooks.write(" + FD + ",0)"},
        {RANDOM, "write([BII)V", "FileHooks.write(" + FD + ",2)"},
        {RANDOM, "writeShort(I)V", "FileHooks.write2(" + FD + ")"},
        {RANDOM, "writeChar(I)V", "FileHooks.write2(" + FD + ")"},
        {RANDOM, "writeInt(I)V", "FileHooks.write4(" + FD + ")"},
        {RANDOM, "writeLong(J)V", "FileHooks.write8(" + FD + ")"},
        {RANDOM, "writeBytes(Ljava/lang/String;)V", "FileHooks.write(" + FD + ",0)"},
        {RANDOM, "writeChars(Ljava/lang/String;)V", "FileHooks.write(" + FD + ",0)"},
        {RANDOM, "setLength(J)V", "FileHooks.truncate(" + FD + ")"},
        {RANDOM, "close()V", "FileHooks.close(" + FD + ")"},
        {"java/io/FileDescriptor", "sync()V", "FileHooks.sync(this)"},
        {FILE_CHANNEL, "read" + BUFFER, "FileHooks.read(" + FD + ",0)"},
        {FILE_CHANNEL, "read" + BUFFERS, "FileHooks.read(" + FD + ",0,1,2)"},
        {FILE_CHANNEL, "read(Ljava/nio/ByteBuffer;J)I", "FileHooks.read(" + FD + ",0)"},
        {FILE_CHANNEL, "write" + BUFFER, "FileHooks.write(" + FD + ",0)"},
        {FILE_CHANNEL, "write" + BUFFERS, "FileHooks.write(" + FD + ",0,1,2)"},
        {FILE_CHANNEL, "write(Ljava/nio/ByteBuffer;J)I", "FileHooks.write(" + FD + ",0)"},
        {FILE_CHANNEL, "transferTo(JJLjava/nio/channels/WritableByteChannel;)J", "FileHooks.transferTo(" + FD + ",1,2)"},
        {FILE_CHANNEL, "transferFrom(Ljava/nio/channels/ReadableByteChannel;JJ)J", "FileHooks.write(" + FD + ",2)"},
        {FILE_CHANNEL, "force(Z)V", "FileHooks.force(" + FD + ")"},
        {FILE_CHANNEL, "truncate(J)Ljava/nio/channels/FileChannel;", "FileHooks.truncate(" + FD + ")"},
        {FILE_CHANNEL, "implCloseChannel()V", "FileHooks.close(" + FD + ")"},
        {FILE, "delete()Z", "FileHooks.delete(" + PATH + ")"},
        {FILE, "renameTo(Ljava/io/File;)Z", "FileHooks.rename(" + PATH + ",0.path Ljava/lang/String; java/io/File)"},
        {FILE, "mkdir()Z", "FileHooks.mkdir(" + PATH + ")"},
        {FILE, "createNewFile()Z", "FileHooks.createNew(" + PATH + ")"},
        {FILE, "normalizedList()[Ljava/lang/String;", "FileHooks.list(" + PATH + ")"},
        {FILE, "exists()Z", "FileHooks.stat(" + PATH + ")"},
        {FILE, "isDirectory()Z", "FileHooks.stat(" + PATH + ")"},
        {FILE, "isFile()Z", "FileHooks.stat(" + PATH + ")"},
        {FILE, "isHidden()Z", "FileHooks.stat(" + PATH + ")"},
        {FILE, "canRead()Z", "FileHooks.stat(" + PATH + ")"},
        {FILE, "canWrite()Z", "FileHooks.stat(" + PATH + ")"},
        {FILE, "canExecute()Z", "FileHooks.stat(" + PATH + ")"},
        {FILE, "length()J", "FileHooks.stat(" + PATH + ")"},
        {FILE, "lastModified()J", "FileHooks.stat(" + PATH + ")"},
        {OPENING, "open(ILsun/nio/fs/UnixPath;Ljava/lang/String;L" + FLAGS + ";I)Ljava/io/FileDescriptor;",
            "FileHooks.openPath(0,1,3.create Z " + FLAGS + ",3.createNew Z " + FLAGS + ")"},
        {OPENING, "open(ILsun/nio/fs/UnixPath;L" + FLAGS + ";I)Ljava/io/FileDescriptor;",
            "FileHooks.openPath(0,1,2.create Z " + FLAGS + ",2.createNew Z " + FLAGS + ")"},
        {PROVIDER, "implDelete(Ljava/nio/file/Path;Z)Z", "FileHooks.deletePath(0)"},
        {PROVIDER, "createDirectory(Ljava/nio/file/Path;[Ljava/nio/file/attribute/FileAttribute;)V",
            "FileHooks.mkdirPath(0)"},
        {PROVIDER, "move(Ljava/nio/file/Path;Ljava/nio/file/Path;[Ljava/nio/file/CopyOption;)V",
            "FileHooks.movePath(0,1)"},
        {PROVIDER, "copy(Ljava/nio/file/Path;Ljava/nio/file/Path;[Ljava/nio/file/CopyOption;)V",
            "FileHooks.copyPath(0,1)"},
        {PROVIDER, "createLink(Ljava/nio/file/Path;Ljava/nio/file/Path;)V", "FileHooks.createPath(0)"},
        {PROVIDER, "createSymbolicLink(Ljava/nio/file/Path;Ljava/nio/file/Path;[Ljava/nio/file/attribute/FileAttribute;)V",
            "FileHooks.createPath(0)"},
        {PROVIDER, "checkAccess(Ljava/nio/file/Path;[Ljava/nio/file/AccessMode;)V", "FileHooks.statPath(0)"},
        {PROVIDER, "readAttributes(Ljava/nio/file/Path;Ljava/lang/Class;[Ljava/nio/file/LinkOption;)"
            + "Ljava/nio/file/attribute/BasicFileAttributes;", "FileHooks.statPath(0)"},
        {PROVIDER, "readAttributesIfExists(Ljava/nio/file/Path;Ljava/lang/Class;[Ljava/nio/file/LinkOption;)"
            + "Ljava/nio/file/attribute/BasicFileAttributes;", "FileHooks.statPath(0)"},
        {"sun/nio/fs/AbstractFileSystemProvider",
            "readAttributes(Ljava/nio/file/Path;Ljava/lang/String;[Ljava/nio/file/LinkOption;)Ljava/util/Map;",
            "FileHooks.statPath(0)"},
        {PROVIDER, "exists(Ljava/nio/file/Path;[Ljava/nio/file/LinkOption;)Z", "FileHooks.stat(0)"},
        {PROVIDER, "exists(Ljava/nio/file/Path;)Z", "FileHooks.stat(0)"},
        {PROVIDER, "isDirectory(Ljava/nio/file/Path;)Z", "FileHooks.stat(0)"},
        {PROVIDER, "isRegularFile(Ljava/nio/file/Path;)Z", "FileHooks.stat(0)"},
        {PROVIDER, "newDirectoryStream(Ljava/nio/file/Path;Ljava/nio/file/DirectoryStream$Filter;)"
            + "Ljava/nio/file/DirectoryStream;", "FileHooks.listPath(0)"},
    };

    static final String[][] NETWORK = {
        {SOCKET, "connect(Ljava/net/SocketAddress;I)V", "NetHooks.connect(this,0)",
            "NetHooks.connectedFrom(this.localport I,0)"},
        {SOCKET, "read([BII)I", "NetHooks.read(" + PEER + ",2)"},
        {SOCKET, "write([BII)V", "NetHooks.write(" + PEER + ",2)"},
        {SOCKET, "close()V", "NetHooks.close(" + PEER + ")"},
        {SOCKET, "accept(Ljava/net/SocketImpl;)V", "NetHooks.accept(this," + FD + ",0)"},
        {CHANNEL, "connect(Ljava/net/SocketAddress;)Z", "NetHooks.connectChannel(this,0)",
            "NetHooks.connectingFrom(this," + FD + ",0)"},
        {CHANNEL, "blockingConnect(Ljava/net/SocketAddress;J)V", "NetHooks.connectChannel(this,0)",
            "NetHooks.connectingFrom(this," + FD + ",0)"},
        {CHANNEL, "read" + BUFFER, "NetHooks.readChannel(" + ENDS + "," + FD + ",0)"},
        {CHANNEL, "read" + BUFFERS, "NetHooks.readChannel(" + ENDS + "," + FD + ",0,1,2)"},
        {CHANNEL, "write" + BUFFER, "NetHooks.writeChannel(" + ENDS + "," + FD + ",0)"},
        {CHANNEL, "write" + BUFFERS, "NetHooks.writeChannel(" + ENDS + "," + FD + ",0,1,2)"},
        {CHANNEL, "blockingRead([BIIJ)I", "NetHooks.readBlocking(" + ENDS + ",2)"},
        {CHANNEL, "blockingWriteFully([BII)V", "NetHooks.writeBlocking(" + ENDS + ",2)"},
        {LISTENING, "accept()Ljava/nio/channels/SocketChannel;",
            "NetHooks.acceptChannel(this,this.localAddress Ljava/net/SocketAddress;," + FD + ")"},
        {LISTENING, "blockingAccept(J)Ljava/nio/channels/SocketChannel;",
            "NetHooks.acceptChannel(this,this.localAddress Ljava/net/SocketAddress;," + FD + ")"},
        {"java/nio/channels/spi/AbstractInterruptibleChannel", "close()V", "NetHooks.closeChannel(this)"},
        {DATAGRAMS, "send(Ljava/nio/ByteBuffer;Ljava/net/SocketAddress;)I", "NetHooks.sendTo(this," + FD + ",0,1)"},
        {DATAGRAMS, "blockingSend(Ljava/net/DatagramPacket;)V", "NetHooks.sendPacket(this,0)"},
        {DATAGRAMS, "write" + BUFFER, "NetHooks.sendTo(this," + FD + ",0,this.remoteAddress Ljava/net/InetSocketAddress;)"},
        {DATAGRAMS, "write" + BUFFERS,
            "NetHooks.sendTo(this," + FD + ",0,1,2,this.remoteAddress Ljava/net/InetSocketAddress;)"},
        {DATAGRAMS, "read" + BUFFERS, "NetHooks.receive(this," + FD + ",0,1,2)"},
        {DATAGRAMS, "receive(Ljava/nio/ByteBuffer;)Ljava/net/SocketAddress;", "NetHooks.receive(this," + FD + ",0)"},
        {DATAGRAMS, "blockingReceive(Ljava/nio/ByteBuffer;J)Ljava/net/SocketAddress;", "NetHooks.receiveBlocking(this,0)"},
        {DATAGRAMS, "blockingReceive(Ljava/net/DatagramPacket;J)V", "NetHooks.receivePacket(this,0)"},
        {DATAGRAMS, "read" + BUFFER, "NetHooks.receive(this," + FD + ",0)"},
        {"sun/security/ssl/SSLSocketImpl$AppInputStream", "read([BII)I", "NetHooks.readSecure(" + TLS + ",2)"},
        {"sun/security/ssl/SSLSocketImpl$AppOutputStream", "write([BII)V", "NetHooks.writeSecure(" + TLS + ",2)"},
        {"sun/security/ssl/SSLSocketImpl", "startHandshake()V", "NetHooks.handshake(this)"},
        {"sun/security/ssl/SSLSocketImpl", "close()V", "NetHooks.closeSecure(this)"},
    };

    static final String[][] THREADS = {
        {"java/lang/Thread", "start()V", "!ThreadHooks.start(this)"},
        {"java/lang/Thread", "start(Ljdk/internal/vm/ThreadContainer;)V", "!ThreadHooks.start(this)"},
        {"java/lang/VirtualThread", "start(Ljdk/internal/vm/ThreadContainer;)V", "!ThreadHooks.start(this)"},
        {"java/lang/Thread", "exit()V", "!ThreadHooks.end(this)"},
        {"jdk/internal/vm/StackableScope", "popAll()V", "!ThreadHooks.endVirtual()"}, // the last that a virtual thread does
        {"java/lang/Thread", "dispatchUncaughtException(Ljava/lang/Throwable;)V", "!ThreadHooks.die(this,0)"},
    };

    private static final String JUC = "java/util/concurrent/";
    private static final String FORK_JOIN = JUC + "ForkJoinTask";
    private static final String IN_FUTURE = JUC + "CompletableFuture";
    private static final String FIRE = "tryFire(I)Ljava/util/concurrent/CompletableFuture;";
    private static final String COMPLETIONS = JUC + "ExecutorCompletionService";
    private static final String DONE = "this.completionQueue Ljava/util/concurrent/BlockingQueue;";
    private static final String SUBSCRIPTION = JUC + "SubmissionPublisher$BufferedSubscription";
    private static final String FIRING = "HandoverHooks.take(this)";
    private static final String FIRING_BOTH = "HandoverHooks.takeOfBoth(this)";
    private static final String OF_TWO = "(L" + IN_FUTURE + ";L" + IN_FUTURE + "$BiCompletion;)V";
    private static final String DELAYED = "L" + JUC + "DelayScheduler$ScheduledForkJoinTask;";

    /** What is woven only if the hand-over of calls is observed. `~`: calls of `run` in there are replaced by the hook. */
    static final String[][] HANDOVER = {
        {JUC + "ThreadPoolExecutor", "execute(Ljava/lang/Runnable;)V", "!HandoverHooks.give(0)"},
        {JUC + "ThreadPoolExecutor", "runWorker(Ljava/util/concurrent/ThreadPoolExecutor$Worker;)V", "~HandoverHooks.run(0)"},
        {JUC + "ScheduledThreadPoolExecutor", "delayedExecute(Ljava/util/concurrent/RunnableScheduledFuture;)V",
            "!HandoverHooks.give(0)"},
        {"java/util/Timer", "sched(Ljava/util/TimerTask;JJ)V", "!HandoverHooks.give(0)"},
        {"java/util/TimerThread", "mainLoop()V", "~HandoverHooks.run(0)"},
        {JUC + "ForkJoinPool", "externalSubmit(L" + FORK_JOIN + ";)L" + FORK_JOIN + ";", "!HandoverHooks.giveOnce(0)"},
        {JUC + "ForkJoinPool", "poolSubmit(ZL" + FORK_JOIN + ";)L" + FORK_JOIN + ";", "!HandoverHooks.giveOnce(1)"},
        {JUC + "ForkJoinPool", "scheduleDelayedTask(" + DELAYED + ")" + DELAYED, "!HandoverHooks.giveOnce(0)"},
        {FORK_JOIN, "fork()L" + FORK_JOIN + ";", "!HandoverHooks.giveOnce(this)"},
        {FORK_JOIN, "doExec()I", "HandoverHooks.take(this)"},
        {FORK_JOIN, "doExec()V", "HandoverHooks.take(this)"},
        {COMPLETIONS, "submit(Ljava/util/concurrent/Callable;)Ljava/util/concurrent/Future;",
            "!HandoverHooks.submit(" + DONE + ")"},
        {COMPLETIONS, "submit(Ljava/lang/Runnable;Ljava/lang/Object;)Ljava/util/concurrent/Future;",
            "!HandoverHooks.submit(" + DONE + ")"},
        {COMPLETIONS, "take()Ljava/util/concurrent/Future;", "HandoverHooks.await(" + DONE + ")"},
        {COMPLETIONS, "poll()Ljava/util/concurrent/Future;", "HandoverHooks.poll(" + DONE + ")"},
        {COMPLETIONS, "poll(JLjava/util/concurrent/TimeUnit;)Ljava/util/concurrent/Future;",
            "HandoverHooks.await(" + DONE + ",0,1)"},
        {COMPLETIONS + "$QueueingFuture", "done()V",
            "!HandoverHooks.done(" + DONE + ",this.task Ljava/util/concurrent/Future;)"},
        {SUBSCRIPTION, "offer(Ljava/lang/Object;Z)I", "HandoverHooks.offer(0)"},
        {SUBSCRIPTION, "retryOffer(Ljava/lang/Object;)I", "HandoverHooks.offer(0)"}, // what was refused is offered again
        {SUBSCRIPTION, "consumeNext(Ljava/util/concurrent/Flow$Subscriber;Ljava/lang/Object;)Z", "HandoverHooks.take(1)"},
        {IN_FUTURE, "unipush(L" + IN_FUTURE + "$Completion;)V", "!HandoverHooks.giveCallback(0)"},
        {IN_FUTURE + "$UniApply", FIRE, FIRING},
        {IN_FUTURE + "$UniAccept", FIRE, FIRING},
        {IN_FUTURE + "$UniRun", FIRE, FIRING},
        {IN_FUTURE + "$UniWhenComplete", FIRE, FIRING},
        {IN_FUTURE + "$UniHandle", FIRE, FIRING},
        {IN_FUTURE + "$UniCompose", FIRE, FIRING},
        {IN_FUTURE + "$UniExceptionally", FIRE, FIRING},
        {IN_FUTURE + "$UniComposeExceptionally", FIRE, FIRING},
        {IN_FUTURE, "bipush" + OF_TWO, "!HandoverHooks.giveCallback(1)"},
        {IN_FUTURE, "orpush" + OF_TWO, "!HandoverHooks.giveCallback(1)"},
        {IN_FUTURE + "$BiApply", FIRE, FIRING_BOTH},
        {IN_FUTURE + "$BiAccept", FIRE, FIRING_BOTH},
        {IN_FUTURE + "$BiRun", FIRE, FIRING_BOTH},
        {IN_FUTURE + "$OrApply", FIRE, FIRING},
        {IN_FUTURE + "$OrAccept", FIRE, FIRING},
        {IN_FUTURE + "$OrRun", FIRE, FIRING},
    };

    /** What is woven only if waits are observed. */
    static final String[][] SYNC = {
        {JUC + "FutureTask", "finishCompletion()V", "!HandoverHooks.set(this)"},
        {IN_FUTURE, "postComplete()V", "!HandoverHooks.set(this)"},
        {FORK_JOIN, "signalWaiters()V", "!HandoverHooks.set(this)"},
        {FORK_JOIN, "trySetThrown(Ljava/lang/Throwable;)I", "!HandoverHooks.set(this)"},
        {FORK_JOIN, "trySetThrown(Ljava/lang/Throwable;)Z", "!HandoverHooks.set(this)"},
        {JUC + "FutureTask", "awaitDone(ZJ)I", "HandoverHooks.await(this,0,1)"},
        {JUC + "ThreadPoolExecutor", "terminated()V", "!HandoverHooks.ended(this)"},
    };

    private JdkMethods() {
    }
}
