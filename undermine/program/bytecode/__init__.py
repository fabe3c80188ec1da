"""Answers what depends on an operation of a compiled program, from the bodies of its methods that the analyser has exported.

The questions and answers are those of `undermine.program.dependence`. Never reads a class file, and never guesses: where the
code is missing, or a value goes where it isn't followed, the answer is `Unknown`. See docs/program-facts.md.
"""
