"""Draws runs: the space-time diagram, its still picture and the coverage charts, as inline SVG. Never reads a file."""
