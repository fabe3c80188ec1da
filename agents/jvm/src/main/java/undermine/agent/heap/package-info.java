/**
 * Accesses to the heap: fields, elements of arrays, collections and maps. Woven code calls {@code HeapHooks} for each of
 * them, if the configuration asks for that.
 *
 * Only accesses inside handlers are recorded, and only those of objects that have a name. Names come from stores, which
 * are followed everywhere. Nothing here calls a method of the target or keeps its objects alive.
 */
package undermine.agent.heap;
