"""`undermine hunt --web`: serves the report of a running hunt on loopback, from a process of its own. Only reads: it never
changes the campaign store and never speaks to the hunt."""
