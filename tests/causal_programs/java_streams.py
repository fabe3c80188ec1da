"""Hand-overs of generated Java programs: connections, datagrams, files as mailboxes, and time limits of sockets."""

from __future__ import annotations

from generator import Body, Program, Way
from java_text import start


def _served(accept: str, listen: str, connect: str, read: str, write: str) -> Way:
    """A request and its answer. `{}` is the connection."""

    def way(program: Program, body: Body) -> None:
        n, giver = program.number(), body.mark()
        kind, one = ("ServerSocketChannel", "SocketChannel") if "Channel" in listen else ("ServerSocket", "Socket")
        server = program.begin(program.cause("start", giver), body.depth - 1, f"{kind} s{n}")
        server.mark()
        server.add(f"{one} o{n} = {accept.format(f's{n}')};", read.format(f"o{n}"))
        body.add(f"{kind} s{n} = {listen};")
        thread = start(program, body, f"{server.name.partition('(')[0]}(s{n})")
        body.add(f"{one} c{n} = {connect.format(f's{n}')};")
        sender = body.mark()
        server.cause = program.cause("message", sender)
        server.mark()
        program.fill(server)
        last = server.mark()
        server.add(write.format(f"o{n}"), f"o{n}.close();")
        program.end(server)
        body.add(write.format(f"c{n}"), read.format(f"c{n}"))
        body.cause = program.cause("message", last)
        body.mark()
        body.add(f"{thread}.join();", f"c{n}.close();", f"s{n}.close();")

    return way


_CHANNELS = "{}.accept()", "ServerSocketChannel.open().bind(ANY)", "connected({})"
_SOCKETS = "{}.accept()", "new ServerSocket(0, 5, LOCAL)", "new Socket(LOCAL, {}.getLocalPort())"


def batch(program: Program, body: Body) -> None:
    """One receive returns two messages; the last one is the cause of the operations after it."""
    n = program.number()
    child = program.begin(program.cause("start", body.mark()), 0, f"ServerSocket s{n}")
    child.mark()
    child.add(f"Socket one = s{n}.accept();", "InputStream in = one.getInputStream();")
    child.add("while (in.available() < 2) Thread.sleep(2);", "in.read(new byte[10]);")
    body.add(f"ServerSocket s{n} = {_SOCKETS[1]};")
    thread = start(program, body, f"{child.name.partition('(')[0]}(s{n})")
    body.add(f"Socket c{n} = {_SOCKETS[2].format(f's{n}')};")
    body.mark()
    body.add(f"c{n}.getOutputStream().write(1);")
    child.cause = program.cause("message", body.mark())
    child.mark()
    child.add("one.close();")
    program.end(child)
    body.add(f"c{n}.getOutputStream().write(2);", f"{thread}.join();", f"c{n}.close();", f"s{n}.close();")


def polled(program: Program, body: Body) -> None:
    """A thread that handles messages of a selector. Between two messages, no message is the cause of its operations."""
    giver, n = body.mark(), program.number()
    server = program.begin(program.cause("start", giver), body.depth - 1, f"ServerSocketChannel s{n}")
    server.mark()
    server.add(f"Selector r{n} = Selector.open();", f"s{n}.configureBlocking(false);")
    server.add(f"s{n}.register(r{n}, SelectionKey.OP_ACCEPT);", f"r{n}.select();", f"r{n}.selectedKeys().clear();")
    server.add(f"SocketChannel o{n} = s{n}.accept();")
    server.add(f"o{n}.configureBlocking(false);", f"o{n}.register(r{n}, SelectionKey.OP_READ);")
    server.mark()
    body.add(f"ServerSocketChannel s{n} = {_CHANNELS[1]};")
    thread = start(program, body, f"{server.name.partition('(')[0]}(s{n})")
    body.add(f"SocketChannel c{n} = {_CHANNELS[2].format(f's{n}')};")
    for _ in range(2):
        server.add(f"r{n}.{program.random.choice(('select()', 'select(99_000)'))};", f"r{n}.selectedKeys().clear();")
        server.cause = program.cause("start", giver)
        server.mark()
        server.add(f"o{n}.read(ByteBuffer.allocate(1));")
        server.cause = program.cause("message", body.mark())
        server.mark()
        program.fill(server)
        body.add(f"c{n}.write(ByteBuffer.allocate(1));", "later();")
    server.add(f"r{n}.close();", f"o{n}.close();")
    program.end(server)
    body.add(f"{thread}.join();", f"c{n}.close();", f"s{n}.close();")


def http(program: Program, body: Body) -> None:
    """The JDK's own server calls a handler."""
    n = program.number()
    handler = program.begin(None, 0, "HttpExchange exchange")
    body.add(f"HttpServer s{n} = HttpServer.create(ANY, 0);")
    body.add(f's{n}.createContext("/", it -> part(() -> {handler.name.partition("(")[0]}(it)).run());', f"s{n}.start();")
    handler.cause = program.cause("message", body.mark())
    last = handler.mark()
    handler.add("exchange.sendResponseHeaders(200, -1);", "exchange.close();")
    program.end(handler)
    body.add(f'new URL("http://127.0.0.1:" + s{n}.getAddress().getPort() + "/").openStream().close();')
    body.cause = program.cause("message", last)
    body.mark()
    body.add(f"s{n}.stop(0);")


def _datagram(kind: str, made: str, receive: str, address: str, send: str) -> Way:
    def way(program: Program, body: Body) -> None:
        n = program.number()
        reader = program.begin(program.cause("start", body.mark()), body.depth - 1, f"{kind} s{n}")
        reader.mark()
        reader.add(receive.format(f"s{n}"))
        body.add(f"{kind} s{n} = {made};", f"{kind} c{n} = {made};", f"SocketAddress a{n} = s{n}.{address};")
        thread = start(program, body, f"{reader.name.partition('(')[0]}(s{n})")
        reader.cause = program.cause("message", body.mark())
        reader.mark()
        program.fill(reader)
        program.end(reader)
        body.add(send.format(f"c{n}", f"a{n}"), f"{thread}.join();", f"c{n}.close();", f"s{n}.close();")

    return way


def _mailbox(rename: str, read: str) -> Way:
    def way(program: Program, body: Body) -> None:
        n = program.number()
        reader = program.begin(program.cause("start", body.mark()), 0)
        reader.mark()
        reader.add(f'Path mail = HERE.resolve("mail{n}");', "while (!Files.exists(mail)) Thread.sleep(2);", read)
        thread = start(program, body, f"{reader.name.partition('(')[0]}()")
        body.add(f'Path y{n} = HERE.resolve("mail{n}.tmp"), z{n} = HERE.resolve("mail{n}");', f"Files.write(y{n}, new byte[1]);")
        reader.cause = program.cause("mailbox", body.mark())
        reader.mark()
        reader.mark()
        program.end(reader)
        body.add(rename.format(old=f"y{n}", new=f"z{n}"), f"{thread}.join();")

    return way


def socket_limit(program: Program, body: Body) -> None:
    """A socket's time limit applies to its receives until it is removed."""
    n = program.number()
    server = program.begin(program.cause("start", body.mark()), 0, f"ServerSocket s{n}")
    server.add(f"s{n}.setSoTimeout(97_000);")
    accepting = server.mark()
    server.add(f"Socket one = s{n}.accept();", "one.setSoTimeout(98_000);")
    reading = server.mark()
    server.add("one.getInputStream().read();")
    body.add(f"ServerSocket s{n} = {_SOCKETS[1]};")
    thread = start(program, body, f"{server.name.partition('(')[0]}(s{n})")
    connecting = body.mark()
    body.add(f"Socket c{n} = new Socket();", f"c{n}.connect(s{n}.getLocalSocketAddress(), 99_000);")
    for seconds in (98, 0):
        server.cause = program.cause("message", body.mark())
        again = server.mark()
        body.add(f"c{n}.getOutputStream().write(1);")
        server.add(*([] if seconds else ["one.setSoTimeout(0);"]), "one.getInputStream().read();")
        program.limit(again, "net.recv", seconds)
    server.cause = program.cause("message", body.mark())
    server.mark()
    server.add("one.close();")
    program.end(server)
    body.add(f"c{n}.getOutputStream().write(1);", f"{thread}.join();", f"c{n}.close();", f"s{n}.close();")
    for mark, op, limit in ((accepting, "net.accept", 97), (reading, "net.recv", 98), (connecting, "net.connect", 99)):
        program.limit(mark, op, limit)


_WRITTEN = "{}.write(ByteBuffer.allocate(1));"
STREAMS: dict[str, Way] = {
    "tcp": _served(*_SOCKETS, "{}.getInputStream().read();", "{}.getOutputStream().write(1);"),
    "tcp_buffered": _served(
        *_SOCKETS,
        "new DataInputStream(new BufferedInputStream({}.getInputStream())).readInt();",
        "new DataOutputStream({}.getOutputStream()).writeInt(1);",
    ),
    "tcp_text": _served(
        *_SOCKETS,
        "new BufferedReader(new InputStreamReader({}.getInputStream())).readLine();",
        'new PrintWriter({}.getOutputStream(), true).println("it");',
    ),
    "channel": _served(*_CHANNELS, "{}.read(ByteBuffer.allocate(9));", _WRITTEN),
    "channel_direct": _served(*_CHANNELS, "{}.read(new ByteBuffer[] {{ByteBuffer.allocateDirect(1)}});", _WRITTEN),
    "channel_socket": _served(*_CHANNELS, "{}.socket().getInputStream().read();", "{}.socket().getOutputStream().write(1);"),
    "batch": batch,
    "polled": polled,
    "http": http,
    "socket_limit": socket_limit,
    "datagram": _datagram(
        "DatagramSocket", "new DatagramSocket(0, LOCAL)", "{}.receive(new DatagramPacket(new byte[9], 9));",
        "getLocalSocketAddress()", "{}.send(new DatagramPacket(new byte[1], 1, {}));",
    ),
    "datagram_channel": _datagram(
        "DatagramChannel", "DatagramChannel.open().bind(ANY)", "{}.receive(ByteBuffer.allocate(9));",
        "getLocalAddress()", "{}.send(ByteBuffer.allocate(1), {});",
    ),
}  # fmt: skip
FILES: dict[str, Way] = {
    "mailbox": _mailbox("Files.move({old}, {new});", "Files.readAllBytes(mail);"),
    "mailbox_atomic": _mailbox(
        "Files.move({old}, {new}, StandardCopyOption.ATOMIC_MOVE);", "new RandomAccessFile(mail.toFile(), \"r\").close();"
    ),
    "mailbox_file": _mailbox("{old}.toFile().renameTo({new}.toFile());", "new FileInputStream(mail.toFile()).close();"),
}
