"""The nouns of the project. This package imports no other part of Undermine and never touches a process or a socket."""
