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
 * The effect on an operation is stored in its Call: an error to raise, or that it would block.
 */
public final class Faults {
    /** The capabilities of this agent, as it reports them to the tool. */
    public static final List<String> CAPABILITIES = Collections.unmodifiableList(Arrays.asList(
            "crash", "reboot", "delay", "delay-operation", "error", "pause", "partition", "when", "unseen", "until", "same"));
    /** Keeps a program from spinning that asks a blocked channel again and again. */
    private static final long SPIN_NS = 1000000L;

    private final DecisionTable table;
    private final SharedState state;
    private final ToolLink link;
    private final LastingFaults lasting;
    private final EventFile file;
    private final Death death;
    private final Sockets sockets;
    private final CopyOnWriteArrayList<Slow> slow = new CopyOnWriteArrayList<Slow>();

    public Faults(DecisionTable table, ToolLink link, LastingFaults lasting, EventFile file, Death death, Sockets sockets) {
        this.table = table;
        this.state = table.state;
        this.link = link;
        this.lasting = lasting;
        this.file = file;
        this.death = death;
        this.sockets = sockets;
    }

    /** Decide about an operation that is about to begin. */
    public void before(Call call) {
        for (TriggerPart part : table.reached(call.operation.before, call)) {
            claim(part, call, TriggerPart.BEFORE);
        }
        if (call.error == null && !call.wouldBlock && lasting.any()) {
            meetLasting(call);
        }
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
            isHeld = lasting.holds(operation, subject) && !isLost(operation, channel);
        }
        if (isHeld) {
            Threads.sleep(SPIN_NS);
        }
        return isHeld;
    }

    /** End delays that are over, even if the target no longer uses their channels. */
    public void look(Cursor cursor) {
        for (Slow each : slow) {
            if (each.hold.over(cursor)) {
                slow.remove(each);
            }
        }
    }

    // --- lasting faults

    private void meetLasting(Call call) {
        String name = lasting.errorOf(call.operation, call.subject);
        if (name != null) {
            call.error = SystemErrors.make(name, call.operation, call.subject);
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

    /** A datagram that is held back is lost for good. */
    private boolean isLost(Operation operation, Object handle) {
        return operation.name.equals("net.send") && sockets.isOfDatagrams(handle);
    }

    /** Wait behind a silent partition: nothing is sent or received. Time limits, closing and interrupts work as usual. */
    private void waitForPeer(Call call) {
        int timeoutMs = call.operation.name.equals("net.recv") ? sockets.timeoutMs(call.handle) : 0;
        long end = Clock.now() + timeoutMs * 1000000L;
        while (lasting.any() && sockets.isWaiting(call.handle)) {
            String name = lasting.errorOf(call.operation, call.subject);
            if (name != null) {
                call.error = SystemErrors.make(name, call.operation, call.subject);
                return;
            }
            if (!lasting.holds(call.operation, call.subject)) {
                return;
            }
            if (timeoutMs > 0 && Clock.now() >= end) {
                call.error = SystemErrors.bare(new SocketTimeoutException("Read timed out"));
                return;
            }
            Threads.sleep(Delay.LOOK_NS);
        }
    }

    /** Load everything that a step may need, since the moment of a step is short. */
    public void makeReady() {
        death.prepare().drop();
    }

    // --- steps

    private void claim(TriggerPart part, Call call, String place) {
        Step step = part.step;
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
        }
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
        Map<String, Object> claim = new LinkedHashMap<String, Object>();
        claim.put("type", "claim");
        claim.put("step", (long) part.step.index);
        claim.put("half", part.half);
        claim.put("node", table.node);
        claim.put("incarnation", link.hello.get("incarnation"));
        claim.put("pid", link.hello.get("pid"));
        claim.put("seq", (long) call.seq);
        claim.put("t_ns", Clock.now());
        claim.put("point", point);
        claim.put("resource", call.subject.resource);
        return claim;
    }

    private static String detail(Step step, Call call, String place) {
        String text = place + " " + call.operation.name + " " + call.subject.target;
        if (step.kind.equals("error")) {
            return text + ": " + step.text("error", "EIO") + " " + step.text("scope", "once");
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

    /** Delay the thread or, if only the operation of a non-blocking channel is delayed, the channel. */
    private void delay(Step step, Call call, String place, int action, int detail) {
        Delay hold = new Delay(state, file, step, call, action, detail);
        boolean isOfChannel = call.nonBlocking && call.handle != null && DecisionTable.isTransfer(call.operation.name);
        if (step.isOfOperation() && isOfChannel && place.equals(TriggerPart.BEFORE)) {
            slow.add(new Slow(call.handle, call.operation.name, hold));
            call.wouldBlock = true;
        } else {
            hold.waitHere(call.cursor);
        }
    }

    private boolean isSlow(Object channel, Operation operation, Cursor cursor) {
        if (slow.isEmpty()) {
            return false;
        }
        look(cursor);
        for (Slow each : slow) {
            if (each.channel.get() == channel && each.op.equals(operation.name)) {
                return true;
            }
        }
        return false;
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
