"""Benchmarks: each prints what it measured and, as its last line, one JSON object. Figures are ratios within one run."""
