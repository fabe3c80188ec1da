package shop;

import java.util.HashMap;
import java.util.Map;

/** A class of a target in which the agent looks for variables. */
public class Node {
    public int term = 1;
    public final Map<String, Integer> view = new HashMap<>();
}
