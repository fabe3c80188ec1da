package undermine.agent.variables;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import undermine.agent.process.Clock;
import undermine.agent.stacks.Sites;
import undermine.agent.wire.SharedState;

/**
 * Finds what could be a variable: all paths that lead to plain values in the target's own objects. The tool asks for it
 * before the user has named any variable. Each path is then sampled like a variable, with the path as its name.
 *
 * A survey takes a small share of the time: it is skipped until enough time has passed since the last one. Paths whose
 * values change are read each time, the others in turns.
 */
final class Survey {
    static final int PATHS_MAX = 2000;
    /** Of one class: those with the fewest steps. */
    static final int ROOT_PATHS_MAX = 200;
    /** Of one path: one that changes so often isn't something that nodes agree about. */
    static final int SAMPLES_MAX = 1000;
    /** Instances of a class at which paths start: with more, it would be unclear which one is meant. */
    static final int LIVING_MAX = 2;
    /** The same for all that were ever made: only the garbage collector knows which of them are gone. */
    static final int MADE_MAX = 16;
    /** Paths that have not changed. */
    private static final int IN_TURN = 64;
    /** How much longer than a reading, or a search, the time until the next one is. */
    private static final int LOOK_PAUSE = 10;
    private static final int SEARCH_PAUSE = 30;
    private static final long SEARCH_NS_MIN = 100000000L;
    /** Longer readings and searches were interrupted by other threads. */
    private static final long COST_NS_MAX = 10000000L;
    /** The texts of objects and containers begin with these: their fields and elements may be new. */
    private static final String OPENED = "<{[";

    private final Sites sites;
    /** By internal name. */
    private final Map<String, SurveyedClass> classes = new ConcurrentHashMap<String, SurveyedClass>();
    /** The same in the order in which they were loaded. */
    private final List<SurveyedClass> inOrder = new ArrayList<SurveyedClass>();
    /** True while a thread looks: others skip their turn. What follows belongs to that thread. */
    private final AtomicBoolean isLooking = new AtomicBoolean();
    volatile long nextLook;
    /** True if a class was loaded, or an instance was made, since the last search. */
    private volatile boolean hasNew;
    long nextSearch;
    /** All paths found so far, and the number of those that are not given up. */
    private final Set<String> candidates = new HashSet<String>();
    private int inUse;
    private List<Candidate> active = new ArrayList<Candidate>();
    private final ArrayDeque<Candidate> quiet = new ArrayDeque<Candidate>();
    /** The classes at which paths may start, and those from which paths must be looked for. */
    private List<SurveyedClass> starts = new ArrayList<SurveyedClass>();
    private final Set<SurveyedClass> outdated = new LinkedHashSet<SurveyedClass>();

    Survey(Sites sites) {
        this.sites = sites;
    }

    /** True for a class of the target that a path can name. */
    boolean watches(String internalName) {
        String name = internalName.replace('/', '.');
        return sites.isOfTarget(name) && SurveyedClass.isNameable(name);
    }

    void loading(String internalName, ClassLoader loader) {
        synchronized (inOrder) {
            SurveyedClass known = classes.get(internalName);
            if (known == null && watches(internalName)) {
                known = new SurveyedClass(internalName.replace('/', '.'));
                inOrder.add(known);
                classes.put(internalName, known);
            }
            if (known != null) {
                known.root.loadedBy(loader);
                known.isNew = true;
                hasNew = true;
            }
        }
    }

    void made(String internalName, Object instance) {
        SurveyedClass known = classes.get(internalName);
        if (known != null) {
            known.made(instance);
            hasNew |= known.isNew;
        }
    }

    /** Read the paths that are due, and record what changed while no other thread has this lock. */
    void look(Object lock, SharedState state, Samples samples) {
        long begun = Clock.now();
        if (begun < nextLook || !isLooking.compareAndSet(false, true)) {
            return;
        }
        try {
            boolean isWhole = begun >= nextSearch;
            if (hasNew || isWhole) {
                hasNew = false;
                search(isWhole);
            }
            List<Candidate> due = walk();
            if (isWhole) {
                long cost = Math.min(COST_NS_MAX, Clock.now() - begun);
                begun = Clock.now();
                nextSearch = begun + Math.max(SEARCH_NS_MIN, SEARCH_PAUSE * cost);
            }
            due.addAll(active);
            for (int i = 0; i < IN_TURN && !quiet.isEmpty(); i++) {
                due.add(quiet.remove());
            }
            read(due, lock, state, samples);
            long ended = Clock.now();
            nextLook = ended + LOOK_PAUSE * Math.min(COST_NS_MAX, ended - begun);
        } finally {
            isLooking.set(false);
        }
    }

    private void read(List<Candidate> due, Object lock, SharedState state, Samples samples) {
        List<Reading> readings = new ArrayList<Reading>();
        for (Candidate each : due) {
            readings.add(each.read());
        }
        synchronized (lock) {
            for (int i = 0; i < readings.size(); i++) {
                due.get(i).publish(readings.get(i), state, samples);
            }
        }
        active = new ArrayList<Candidate>();
        for (Candidate each : due) {
            if (each.hasNewObject) {
                outdated.add(each.found.start);
                each.hasNewObject = false;
            }
            if (each.isGivenUp) {
                inUse--;
            } else {
                (each.changes > 0 ? active : quiet).add(each);
            }
        }
    }

    // --- search

    /** Count the living instances of all classes. Paths are looked for from new ones, or again from all. */
    private void search(boolean isWhole) {
        synchronized (inOrder) {
            starts = new ArrayList<SurveyedClass>(inOrder);
        }
        for (SurveyedClass each : starts) {
            int living = each.root.living().size();
            each.isFew = living > 0 && living <= LIVING_MAX;
            each.isStart = false;
            if (isWhole || each.isNew) {
                each.isNew = false;
                outdated.add(each);
            }
        }
        for (SurveyedClass each : starts) {
            for (Object instance : each.isFew ? each.root.living() : Collections.emptyList()) {
                outermost(instance, each).isStart = true;
            }
        }
    }

    /** An instance belongs to the outermost class with few instances: then different kinds of nodes have the same paths. */
    private SurveyedClass outermost(Object instance, SurveyedClass own) {
        SurveyedClass found = own;
        for (Class<?> each = instance.getClass(); each != null && each.getClassLoader() != null; each = each.getSuperclass()) {
            SurveyedClass known = classes.get(each.getName().replace('.', '/'));
            found = known != null && known.isFew ? known : found;
        }
        return found;
    }

    /** Look for paths that are not known yet, from the classes with new objects. */
    private List<Candidate> walk() {
        List<Candidate> fresh = new ArrayList<Candidate>();
        if (outdated.isEmpty()) {
            return fresh;
        }
        SurveyWalk walk = new SurveyWalk(sites, instancesOfStarts());
        List<SurveyWalk.Found> found = new ArrayList<SurveyWalk.Found>();
        for (SurveyedClass start : outdated) {
            List<SurveyWalk.Found> mine = walk.from(start);
            Collections.sort(mine);
            found.addAll(mine.subList(0, Math.min(ROOT_PATHS_MAX, mine.size())));
        }
        outdated.clear();
        Collections.sort(found);
        for (SurveyWalk.Found each : found) {
            if (inUse < PATHS_MAX && candidates.add(each.path)) {
                inUse++;
                fresh.add(new Candidate(each));
            }
        }
        return fresh;
    }

    private Set<Object> instancesOfStarts() {
        Set<Object> found = Collections.newSetFromMap(new IdentityHashMap<Object, Boolean>());
        for (SurveyedClass start : starts) {
            found.addAll(start.isStart ? start.root.living() : Collections.emptyList());
        }
        return found;
    }

    /** A path that is sampled. */
    private static final class Candidate implements Samples {
        final SurveyWalk.Found found;
        /** The number of samples after the first reading. */
        int changes;
        /** True if a value became an object or a container: there may be new paths. */
        boolean hasNewObject;
        boolean isGivenUp;
        private final Variable variable;
        private boolean isRead;
        private Samples samples;

        Candidate(SurveyWalk.Found found) {
            this.found = found;
            variable = new Variable(
                    found.path, found.start.root, new VariablePath(found.path), Collections.<String, Object>emptyMap());
        }

        /** The texts; none if it is unclear by now which instance is meant. */
        Reading read() {
            return found.isStatic || found.start.isFew ? variable.read() : variable.nothing();
        }

        /** Record what changed. A path with too many keys, changes or instances leads nowhere from now on. */
        void publish(Reading reading, SharedState state, Samples to) {
            samples = to;
            boolean hasMany = !found.isStatic && found.start.isCommon();
            isGivenUp = hasMany || reading.texts.size() > SurveyWalk.KEYS_MAX;
            variable.publish(isGivenUp ? variable.nothing() : reading, state, this);
            if (changes > SAMPLES_MAX && !isGivenUp) {
                isGivenUp = true;
                variable.publish(variable.nothing(), state, this);
            }
            isRead |= reading.isKnown;
            samples = null;
        }

        @Override
        public void changed(String name, String key, String text) {
            changes += isRead ? 1 : 0;
            hasNewObject |= isRead && text != null && !text.isEmpty() && OPENED.indexOf(text.charAt(0)) >= 0;
            samples.changed(name, key, text);
        }

        @Override
        public void leadsNowhere(String name, String why) {
            // nobody has asked for this path
        }
    }
}
