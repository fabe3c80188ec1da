/**
 * Finds the class files of classes, and reads their constants. Never changes one, and never loads a class.
 */
package undermine.agent.classfiles;
