"""The text of generated Java programs: their common beginning, their functions, and helpers of many hand-overs.

All handed-over work is created by `part`, so that one place handles exceptions and can delay all of it. A function's
parameters have the same names as the variables of its caller.
"""

from __future__ import annotations

from collections.abc import Sequence

from generator import Body, Program

HEAD = """
import com.sun.net.httpserver.*;
import java.io.*;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.concurrent.locks.*;

public class Program {
    static final int LATE_MS = 0;
    static final Path HERE = Paths.get("").toAbsolutePath();

    interface Part {
        void run() throws Exception;
    }

    static void mark(String name) {
        Files.exists(HERE.resolve("mark-" + name));
    }

    /** Gives another thread time to begin waiting. */
    static void later() throws Exception {
        Thread.sleep(LATE_MS > 0 ? 0 : 20);
    }

    static Runnable part(Part part) {
        return () -> {
            try {
                Thread.sleep(LATE_MS);
                part.run();
            } catch (Throwable error) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        };
    }

    static Callable<Integer> call(Part part) {
        return () -> {
            part(part).run();
            return 1;
        };
    }

    static TimerTask timed(Part part) {
        return new TimerTask() {
            @Override
            public void run() {
                part(part).run();
            }
        };
    }

    static class Taker implements Flow.Subscriber<Runnable> {
        public void onSubscribe(Flow.Subscription to) {
            to.request(9);
        }

        public void onNext(Runnable item) {
            item.run();
        }

        public void onError(Throwable error) {
            error.printStackTrace();
        }

        public void onComplete() {
        }
    }

    static class Gate {
        final ReentrantLock lock = new ReentrantLock();
        final Condition open = lock.newCondition();
    }

    static SocketChannel connected(ServerSocketChannel server) throws Exception {
        return SocketChannel.open(server.getLocalAddress());
    }

    static final InetAddress LOCAL = InetAddress.getLoopbackAddress();
    static final InetSocketAddress ANY = new InetSocketAddress(LOCAL, 0);

"""


def function(word: str, name: str, lines: Sequence[str]) -> str:
    return "\n".join([f"    {word} {name} throws Exception {{", *(f"        {line}" for line in lines), "    }", ""])


def main(name: str) -> str:
    return (
        "    static final Runnable STOP = () -> { };\n\n"
        f"    public static void main(String[] arguments) throws Exception {{\n        {name}();\n    }}\n}}\n"
    )


def start(program: Program, body: Body, call: str, make: str = "new Thread(part(() -> {}))") -> str:
    """Let the body start a thread that makes this call; return the thread's name."""
    name = f"t{program.number()}"
    body.add(f"Thread {name} = {make.format(call)};", f"{name}.start();")
    return name


def started(program: Program, body: Body, *ends: str, parameters: str = "", call: str = "") -> tuple[str, str]:
    """Start a thread that does something later and then ends a wait; return its name and its last mark."""
    name, last = program.child(body, "start", body.mark(), *ends, before=("later();",), parameters=parameters)
    return start(program, body, f"{name}({call})"), last


def made_pool(program: Program, body: Body, make: str = "Executors.newFixedThreadPool(1)", kind: str = "ExecutorService") -> str:
    name = f"p{program.number()}"
    body.add(f"{kind} {name} = {make};")
    return name
