"""The nouns of the project. This package imports nothing else of ours and never touches a process or a socket."""
