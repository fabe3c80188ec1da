"""Where nodes agree and disagree: the values of their variables, invariants between nodes, and states that violate them. Never
decides what is injected."""
