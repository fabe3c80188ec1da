"""Benchmarks. Each prints its figures and, as its last line, one JSON object. Figures are ratios within one run."""
