"""The tool's side of process keeping: start, freeze and kill nodes through a guardian. Never runs a node itself."""
