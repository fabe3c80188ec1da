"""Groups failing runs into findings: the rules of the groups, and the findings made from them. Never runs a plan."""
