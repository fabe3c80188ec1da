"""The tool's side of the guardian: starts, freezes and kills nodes through it. Never runs a node itself."""
