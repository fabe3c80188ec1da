package undermine.agent.facts;

import java.util.List;
import undermine.agent.stacks.Sites;

/** Tells whether a class belongs to the target, in the same way as the agent. */
final class OwnPackages {
    private final Sites sites;

    OwnPackages(List<String> packages) {
        sites = new Sites(packages, null);
    }

    boolean has(String className) {
        return !className.endsWith("module-info") && !className.endsWith("package-info") && sites.isOfTarget(className);
    }
}
