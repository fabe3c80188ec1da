/**
 * Reads the class files of a target and writes facts about them: I/O calls, the call graph, and the regions in which a slow
 * call hurts. It runs in a process of its own that the tool starts, and is never used inside a target. It never loads or
 * runs a class of the target.
 */
package undermine.agent.facts;
