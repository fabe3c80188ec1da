"""The benchmark of campaigns on several machines. Never part of a test."""
