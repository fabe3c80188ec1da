"""How hooks are put in place and how they record: on modules, C types, classes and coroutine functions.

It knows no particular library. The rooms `files`, `net`, `sync` and `handover` say what is hooked.
"""
