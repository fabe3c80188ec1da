package undermine.agent.stacks;

import java.lang.StackWalker.StackFrame;
import java.util.Set;
import java.util.Spliterator;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Stream;
import undermine.agent.wire.Cursor;

/** Walks stacks with the JDK's StackWalker. Loaded by name, since the oldest supported JVMs don't have one. */
final class JdkWalker extends Walker {
    private static final int FRAMES_EXPECTED = 16;

    private final StackWalker walker =
        StackWalker.getInstance(Set.of(StackWalker.Option.RETAIN_CLASS_REFERENCE), FRAMES_EXPECTED);

    @Override
    Stack here(Sites sites, Cursor cursor) {
        WalkRoom room = WalkRoom.of(cursor);
        Walk walk = (Walk) room.walk;
        if (walk == null) {
            walk = new Walk(sites, cursor, room);
            room.walk = walk;
        }
        return walker.walk(walk);
    }

    /** The walks of one thread, one at a time. */
    private static final class Walk implements Function<Stream<StackFrame>, Stack>, Consumer<StackFrame> {
        private final Sites sites;
        private final Cursor cursor;
        private final Site[] frames;
        private int count;
        private int hash;
        /** The innermost frame outside the agent, for stacks without a frame of the target. */
        private StackFrame innermost;

        Walk(Sites sites, Cursor cursor, WalkRoom room) {
            this.sites = sites;
            this.cursor = cursor;
            frames = room.frames;
        }

        @Override
        public Stack apply(Stream<StackFrame> stream) {
            count = 0;
            hash = Sites.HASH_START;
            Spliterator<StackFrame> all = stream.spliterator();
            int left = Sites.WALK_MAX;
            while (count < Sites.DEPTH_MAX && left > 0 && all.tryAdvance(this)) {
                left--;
            }
            StackFrame inner = innermost;
            innermost = null;
            if (count > 0) {
                return sites.stack(cursor, frames, count, hash);
            }
            if (inner == null) {
                return sites.nowhere(cursor);
            }
            return sites.alone(cursor, find(sites.ofClass(inner.getDeclaringClass()), inner));
        }

        @Override
        public void accept(StackFrame frame) {
            ClassSites code = sites.ofClass(frame.getDeclaringClass());
            if (code.isOfTarget) {
                Site found = find(code, frame);
                frames[count++] = found;
                hash = Sites.mix(hash, found.id);
            } else if (innermost == null && !code.isOfAgent) {
                innermost = frame;
            }
        }

        private Site find(ClassSites code, StackFrame frame) {
            int bci = frame.getByteCodeIndex();
            Site found = code.at(bci);
            if (found == ClassSites.ASK) {
                found = code.at(frame.getMethodName(), bci);
            }
            if (found == ClassSites.ASK) {
                found = code.at(frame.getMethodName() + frame.getDescriptor(), bci);
            }
            return found != null ? found : define(frame, bci);
        }

        private Site define(StackFrame frame, int bci) {
            return sites.define(cursor, frame.getDeclaringClass(), frame.getMethodName(), frame.getDescriptor(), bci,
                frame.getLineNumber());
        }
    }
}
