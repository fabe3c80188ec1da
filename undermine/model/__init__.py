"""The nouns of the project. This package imports no other part of Undermine but the facts
of the protocol, and never touches a process or a socket."""
