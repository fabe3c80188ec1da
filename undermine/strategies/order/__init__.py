"""The order in which strategies run plans: a short budget tries as many different faults as possible. Never drops a plan."""
