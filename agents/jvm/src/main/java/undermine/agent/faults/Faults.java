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
 * Claims steps and carries out what the tool agrees to. The agent must be at work in the thread.
 *
 * What is done to an operation is left in its Call: an error to raise, or that it would block.
 */
public final class Faults {
    /** What this agent can do, in the words of its introduction. */
    public static final List<String> CAPABILITIES = Collections.unmodifiableList(Arrays.asList(
            "crash", "reboot", "delay", "delay-operation", "error", "pause", "partition", "when", "unseen", "until"));
    /** A program that asks a channel again and again while nothing may come or go is kept from spinning. */
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

    /** Decide about an operation that is about to be done. */
    public void before(Call call) {
        for (TriggerPart half : table.reached(call.operation.before, call)) {
            claim(half, call, TriggerPart.BEFORE);
        }
        if (call.error == null && !call.wouldBlock && lasting.any()) {
            meetLasting(call);
        }
    }

    /** Decide about an operation that was done. */
    public void after(Call call) {
        for (TriggerPart half : table.reached(call.operation.after, call)) {
            claim(half, call, TriggerPart.AFTER);
        }
    }

    /**
     * True if a channel that does not block must be told to wait, without an event. Cheap while nothing is in force.
     *
     * Asked before the operation is recorded, so that what is in the way of a fault is not counted again and again.
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

    /** End the delays that are over though nobody asks for their channels any more. */
    public void look(Cursor cursor) {
        for (Slow each : slow) {
            if (each.hold.over(cursor)) {
                slow.remove(each);
            }
        }
    }

    // --- what lasts

    private void meetLasting(Call call) {
        String name = lasting.errorOf(call.operation, call.subject);
        if (name != null) {
            call.error = SystemErrors.make(name, call.operation, call.subject);
        } else if (lasting.holds(call.operation, call.subject)) {
            if (isLost(call.operation, call.subjectOf)) {
                call.isLost = true;
            } else if (call.nonBlocking) {
                call.wouldBlock = true;
                Threads.sleep(SPIN_NS);
            } else {
                waitForPeer(call);
            }
        }
    }

    /** What is kept from a datagram is kept for ever. */
    private boolean isLost(Operation operation, Object thing) {
        return operation.name.equals("net.send") && sockets.isOfDatagrams(thing);
    }

    /** Behind a silent partition: nothing can be sent or arrives; time limits, closing and interrupts are as ever. */
    private void waitForPeer(Call call) {
        int timeoutMs = call.operation.name.equals("net.recv") ? sockets.timeoutMs(call.subjectOf) : 0;
        long end = Clock.now() + timeoutMs * 1000000L;
        while (lasting.any() && sockets.isWaiting(call.subjectOf)) {
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

    /** What may be needed is loaded before: a step's moment does not last. */
    public void makeReady() {
        death.prepare().drop();
    }

    // --- what is reached

    private void claim(TriggerPart half, Call call, String place) {
        Step step = half.step;
        int action = file.string(call.cursor, step.kind);
        int detail = file.string(call.cursor, detail(step, call, place));
        boolean isDeath = half.part.equals("second") && (step.kind.equals("crash") || step.kind.equals("reboot"));
        Death.Prepared blow = isDeath ? death.prepare() : null;
        boolean agreed = agreed(half, call);
        if (blow != null) {
            if (agreed) {
                write(step, call, action, detail);
                blow.strike();
            }
            blow.drop();
        } else if (agreed && half.part.equals("second")) {
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

    /** Ask the tool; false also if it does the thing itself. */
    private boolean agreed(TriggerPart half, Call call) {
        Map<String, Object> answer = link.ask(claimOf(half, call));
        return answer != null && "go".equals(answer.get("type")) && !Boolean.TRUE.equals(answer.get("external"));
    }

    private Map<String, Object> claimOf(TriggerPart half, Call call) {
        Map<String, Object> point = new LinkedHashMap<String, Object>();
        point.put("op", call.operation.name);
        point.put("loc", call.stack.loc);
        point.put("node", table.node);
        point.put("role", table.role);
        point.put("target", call.subject.target);
        point.put("stack", call.stack.digest());
        Map<String, Object> claim = new LinkedHashMap<String, Object>();
        claim.put("type", "claim");
        claim.put("step", (long) half.step.index);
        claim.put("half", half.part);
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

    /** The error is made first: with the receipt it is certain that it is raised. */
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

    /** Hold the thread now or, where a channel alone is to wait and its thread must not, let the channel do it. */
    private void delay(Step step, Call call, String place, int action, int detail) {
        Delay hold = new Delay(state, file, step, call, action, detail);
        boolean isOfChannel = call.nonBlocking && call.subjectOf != null && DecisionTable.isTransfer(call.operation.name);
        if (step.isOfOperation() && isOfChannel && place.equals(TriggerPart.BEFORE)) {
            slow.add(new Slow(call.subjectOf, call.operation.name, hold));
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

    /** A channel on which one direction is slow. */
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
