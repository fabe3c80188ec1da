package undermine.agent.faults;

import java.lang.ref.WeakReference;
import java.net.SocketTimeoutException;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import undermine.agent.operations.Call;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;
import undermine.agent.process.Clock;
import undermine.agent.process.Death;
import undermine.agent.process.Threads;
import undermine.agent.wire.Cursor;
import undermine.agent.wire.EventFile;
import undermine.agent.wire.SharedState;
import undermine.agent.wire.ToolLink;

/**
 * Claims steps and carries out the faults that the tool agrees to. The caller has set `busy`.
 *
 * The effect on an operation is stored in its Call: an error to raise, that it would block, that its message is lost, or a
 * change of its data.
 */
public final class Faults {
    /** The capabilities of this agent, as it reports them to the tool. */
    public static final List<String> CAPABILITIES = Collections.unmodifiableList(Arrays.asList(
            "crash", "reboot", "delay", "delay-operation", "error", "drop", "corrupt", "pause", "partition", "power", "when",
            "unseen", "until", "same"));
    /** Keeps a program from spinning that asks a blocked channel again and again. */
    private static final long SPIN_NS = 1000000L;

    private final DecisionTable table;
    private final SharedState state;
    private final ToolLink link;
    private final LastingFaults lasting;
    private final EventFile file;
    private final Death death;
    private final Sockets sockets;
    private final BlackHoles holes;
    private final CopyOnWriteArrayList<Slow> slow = new CopyOnWriteArrayList<Slow>();

    public Faults(DecisionTable table, ToolLink link, LastingFaults lasting, EventFile file, Death death, Sockets sockets) {
        this.table = table;
        this.state = table.state;
        this.link = link;
        this.lasting = lasting;
        this.file = file;
        this.death = death;
        this.sockets = sockets;
        this.holes = new BlackHoles(state, lasting, sockets);
    }

    /** Decide about an operation that is about to begin. */
    public void before(Call call) {
        for (TriggerPart part : table.reached(call.operation.before, call)) {
            claim(part, call, TriggerPart.BEFORE);
        }
        if (isFree(call) && !call.nonBlocking) {
            waitBehindSlow(call);
        }
        if (isFree(call) && lasting.any()) {
            meetLasting(call);
        }
    }

    /** True if nothing is decided about the operation yet. */
    private static boolean isFree(Call call) {
        return call.error == null && !call.wouldBlock && !call.isLost;
    }

    /** Decide about an operation that has been done. */
    public void after(Call call) {
        for (TriggerPart part : table.reached(call.operation.after, call)) {
            claim(part, call, TriggerPart.AFTER);
        }
    }

    /**
     * True if a non-blocking channel has to wait, without an event. Cheap while no fault is in force.
     *
     * It is asked before the operation is recorded, so that repeated attempts are not counted as occurrences.
     */
    public boolean mustWait(Operation operation, Subject subject, Object channel, Cursor cursor) {
        boolean isHeld = isSlow(channel, operation, cursor);
        if (!isHeld && lasting.any() && lasting.errorOf(operation, subject) == null) {
            BlackHole hole = holes.of(channel, operation.name);
            isHeld = hole != null ? isReceive(operation) && hole.swallow()
                    : lasting.holds(operation, subject) && !isLost(operation, channel);
        }
        if (isHeld) {
            Threads.sleep(SPIN_NS);
        }
        return isHeld;
    }

    /** The target is about to close a socket. No orderly end crosses a partition with errors: the peer sees a reset. */
    public void closing(Object socket, Subject subject) {
        if (subject != null && lasting.any() && lasting.refusesSends(subject) && !sockets.isOfDatagrams(socket)) {
            sockets.reset(socket);
        }
        holes.closing(socket);
    }

    /** Take notice of faults that have ended, even if the target does nothing that depends on them. */
    public void look(Cursor cursor) {
        lasting.any();
        holes.look();
        for (Slow each : slow) {
            if (each.hold.over(cursor)) {
                slow.remove(each);
            }
        }
    }

    // --- lasting faults

    private void meetLasting(Call call) {
        String name = lasting.errorOf(call.operation, call.subject);
        BlackHole hole = holes.of(call.handle, call.operation.name);
        if (name != null) {
            call.error = SystemErrors.make(name, call.operation, call.subject);
        } else if (hole != null) {
            fall(hole, call);
        } else if (lasting.holds(call.operation, call.subject)) {
            if (isLost(call.operation, call.handle)) {
                call.isLost = true;
            } else if (call.nonBlocking) {
                call.wouldBlock = true;
                Threads.sleep(SPIN_NS);
            } else {
                waitForPeer(call);
            }
        }
    }

    private void fall(BlackHole hole, Call call) {
        if (!isReceive(call.operation)) {
            hole.lose();
            call.isLost = true;
            return;
        }
        long end = limitOf(call);
        while (sockets.isWaiting(call.handle) && !state.over(hole.step)) {
            boolean hasEnded = !hole.swallow();
            call.hasLost = hole.hasLost();
            if (hasEnded) {
                call.error = hole.hasLost() ? SystemErrors.make("ECONNRESET", call.operation, call.subject) : null;
                return;
            }
            if (mayNotWait(call, end)) {
                return;
            }
        }
        holes.look();
    }

    /** Lose the next datagram alone. */
    private void loseDatagram(Call call) {
        long end = limitOf(call);
        while (sockets.isWaiting(call.handle) && !call.hasLost) {
            call.hasLost = sockets.lose(call.handle) > 0;
            if ((call.nonBlocking || !call.hasLost) && mayNotWait(call, end)) {
                return;
            }
        }
    }

    /** The time until which a receive or a connect may wait; 0: no limit. */
    private long limitOf(Call call) {
        int timeoutMs = isReceive(call.operation) ? sockets.timeoutMs(call.handle)
                : isConnect(call.operation) ? sockets.connectTimeoutMs(call.handle) : 0;
        return timeoutMs > 0 ? Clock.now() + timeoutMs * 1000000L : 0;
    }

    /** Wait a little; true if the program learns now that it waited in vain. */
    private static boolean mayNotWait(Call call, long end) {
        if (call.nonBlocking) {
            call.wouldBlock = true;
        } else if (end != 0 && Clock.now() >= end) {
            String text = isConnect(call.operation) ? "Connect timed out" : "Read timed out";
            call.error = SystemErrors.bare(new SocketTimeoutException(text));
        } else {
            Threads.sleep(Delay.LOOK_NS);
        }
        return call.wouldBlock || call.error != null;
    }

    private static boolean isReceive(Operation operation) {
        return operation.name.equals("net.recv");
    }

    private static boolean isConnect(Operation operation) {
        return operation.name.equals("net.connect");
    }

    /** A datagram that is held back is lost for good. */
    private boolean isLost(Operation operation, Object handle) {
        return operation.name.equals("net.send") && sockets.isOfDatagrams(handle);
    }

    /** Wait behind a silent partition: nothing is sent or received. Time limits, closing and interrupts work as usual. */
    private void waitForPeer(Call call) {
        long end = limitOf(call);
        while (lasting.any() && sockets.isWaiting(call.handle)) {
            String name = lasting.errorOf(call.operation, call.subject);
            if (name != null) {
                call.error = SystemErrors.make(name, call.operation, call.subject);
                return;
            }
            if (!lasting.holds(call.operation, call.subject)) {
                return;
            }
            if (mayNotWait(call, end)) {
                return;
            }
        }
    }

    /** Load everything that a step may need, since the moment of a step is short. */
    public void makeReady() {
        death.prepare().drop();
    }

    // --- steps

    private void claim(TriggerPart part, Call call, String place) {
        Step step = part.step;
        if (part.isLate) {
            call.change = call.change == null ? new Corruption(this, part, call) : call.change;
            return;
        }
        int action = file.string(call.cursor, step.kind);
        int detail = file.string(call.cursor, detail(step, call, place));
        boolean isDeath = part.half.equals("second") && (step.kind.equals("crash") || step.kind.equals("reboot"));
        Death.Prepared blow = isDeath ? death.prepare() : null;
        boolean agreed = agreed(part, call);
        if (blow != null) {
            if (agreed) {
                write(step, call, action, detail);
                blow.strike();
            }
            blow.drop();
        } else if (agreed && part.half.equals("second")) {
            act(step, call, place, action, detail);
        }
    }

    private void act(Step step, Call call, String place, int action, int detail) {
        if (step.kind.equals("delay")) {
            delay(step, call, place, action, detail);
        } else if (step.kind.equals("error")) {
            raise(step, call, action, detail);
        } else if (step.kind.equals("drop")) {
            write(step, call, action, detail);
            drop(step, call);
        }
    }

    /** Lose a message. A stream could only continue with a gap, so it also loses everything after it in that direction. */
    private void drop(Step step, Call call) {
        if (!DecisionTable.isTransfer(call.operation.name)) {
            call.isLost = true;
        } else if (!sockets.isOfDatagrams(call.handle)) {
            holes.add(call.handle, call.operation.name, step.index);
        } else if (isReceive(call.operation)) {
            loseDatagram(call);
        } else {
            call.isLost = true;
        }
    }

    /** Claim a step that has found bytes to change; true if they are to be changed. */
    boolean corrupts(TriggerPart part, Call call, String change) {
        int action = file.string(call.cursor, part.step.kind);
        int detail = file.string(call.cursor, detail(part.step, call, TriggerPart.BEFORE) + ": " + change);
        if (!agreed(part, call)) {
            return false;
        }
        write(part.step, call, action, detail);
        return true;
    }

    /** Ask the tool; false also if the tool carries out the fault itself. */
    private boolean agreed(TriggerPart part, Call call) {
        Map<String, Object> answer = link.ask(claimOf(part, call));
        return answer != null && "go".equals(answer.get("type")) && !Boolean.TRUE.equals(answer.get("external"));
    }

    private Map<String, Object> claimOf(TriggerPart part, Call call) {
        Map<String, Object> point = new LinkedHashMap<String, Object>();
        point.put("op", call.operation.name);
        point.put("loc", call.stack.loc);
        point.put("node", table.node);
        point.put("role", table.role);
        point.put("target", call.subject.target);
        point.put("stack", call.stack.digest());
        if (!call.subject.content.isEmpty()) {
            point.put("content", call.subject.content);
        }
        if (part.hasState()) {
            point.put(DecisionTable.STATE, part.stateText(state));
        }
        Map<String, Object> claim = new LinkedHashMap<String, Object>();
        claim.put("type", "claim");
        claim.put("step", (long) part.step.index);
        claim.put("half", part.half);
        claim.put("node", table.node);
        claim.put("incarnation", link.hello.get("incarnation"));
        claim.put("pid", link.hello.get("pid"));
        claim.put("seq", (long) call.seq);
        claim.put("t_ns", Clock.trueTime(Clock.now()));
        claim.put("point", point);
        claim.put("resource", call.subject.resource);
        return claim;
    }

    private static String detail(Step step, Call call, String place) {
        String text = place + " " + call.operation.name + " " + call.subject.target;
        boolean isLogical = DecisionTable.isLogical(call.operation.name);
        if (step.kind.equals("error")) {
            return text + ": " + step.text("error", "EIO") + " " + step.text("scope", "once")
                    + (isLogical ? ", at the call" : "");
        }
        if (step.kind.equals("drop") && isLogical) {
            return text + ": at the call";
        }
        return step.isOfOperation() ? text + ": this operation only" : text;
    }

    private void write(Step step, Call call, int action, int detail) {
        file.receipt(call.cursor, call.seq, Clock.now(), step.index, 0, action, detail);
    }

    /** Create the error before the receipt is written: a receipt proves that the error is raised. */
    private void raise(Step step, Call call, int action, int detail) {
        String name = step.text("error", "EIO");
        String scope = step.text("scope", "once");
        Throwable error = SystemErrors.make(name, call.operation, call.subject);
        write(step, call, action, detail);
        call.error = error;
        if (!scope.equals("once")) {
            lasting.add(step.index, name, scope, call.subject);
        }
    }

    /**
     * Delay the thread or, if only the operation is delayed, its channel. The socket's own time limit may end a delayed
     * operation earlier, with the error that a slow network would cause.
     */
    private void delay(Step step, Call call, String place, int action, int detail) {
        Delay hold = new Delay(state, file, step, call, action, detail);
        boolean isOfOperation = step.isOfOperation() && place.equals(TriggerPart.BEFORE) && call.handle != null;
        if (isOfOperation && call.nonBlocking && DecisionTable.isTransfer(call.operation.name)) {
            slow.add(new Slow(call.handle, call.operation.name, hold));
            call.wouldBlock = true;
        } else if (isOfOperation && limitOf(call) > 0) {
            if (isReceive(call.operation)) {
                slow.add(new Slow(call.handle, call.operation.name, hold));
            }
            waitWithinLimit(call, hold);
            if (!isReceive(call.operation)) {
                hold.finish(call.cursor);
            }
        } else {
            hold.waitHere(call.cursor);
        }
    }

    /** Wait until the delay is over, the socket is closed, or its time limit is reached. */
    private void waitWithinLimit(Call call, Delay hold) {
        long end = limitOf(call);
        while (!hold.over(call.cursor) && sockets.isWaiting(call.handle) && !mayNotWait(call, end)) {
            continue;
        }
    }

    /** Let a blocking operation wait for an earlier one on its channel that is still delayed. */
    private void waitBehindSlow(Call call) {
        Slow before = slow.isEmpty() ? null : slowOne(call.handle, call.operation, call.cursor);
        if (before != null) {
            waitWithinLimit(call, before.hold);
        }
    }

    private boolean isSlow(Object channel, Operation operation, Cursor cursor) {
        return !slow.isEmpty() && slowOne(channel, operation, cursor) != null;
    }

    private Slow slowOne(Object channel, Operation operation, Cursor cursor) {
        look(cursor);
        for (Slow each : slow) {
            if (each.channel.get() == channel && each.op.equals(operation.name)) {
                return each;
            }
        }
        return null;
    }

    /** A channel that is slow in one direction. */
    private static final class Slow {
        final WeakReference<Object> channel;
        final String op;
        final Delay hold;

        Slow(Object channel, String op, Delay hold) {
            this.channel = new WeakReference<Object>(channel);
            this.op = op;
            this.hold = hold;
        }
    }
}
