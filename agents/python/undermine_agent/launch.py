"""Runs a program with the agent if the interpreter ignores PYTHONPATH or the environment is cleared.

    python -I …/launch.py [--config FILE] [-m MODULE | SCRIPT | FOLDER | ZIPFILE] ARGUMENT…

The program runs as the interpreter would have run it. Processes that it spawns by `multiprocessing` load the agent too.
UNDERMINE_AGENT or `--config` names the agent's configuration; without either, the program runs without the agent.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_LOAD = "import sys; sys.path.insert(0, %r); import undermine_agent; del sys.path[0]; undermine_agent.load(%r); "


def main() -> None:
    words = sys.argv[1:]
    config = os.environ.get("UNDERMINE_AGENT", "")
    if words[:1] == ["--config"]:
        config, words = words[1] if words[1:] else "", words[2:]
    as_module = words[:1] == ["-m"]
    if as_module:
        del words[0]
    if not words:
        sys.exit("usage: launch.py [--config FILE] [-m MODULE | SCRIPT] ARGUMENT…")
    _leave_the_path()
    if config:
        _load_agent(os.path.abspath(config))
    sys.argv[:] = words
    if as_module:
        _run_module(words[0])
    else:
        _run_script(words[0])


def _adds_folders() -> bool:
    """True if the interpreter puts the folder of the program first on `sys.path`."""
    return not (sys.flags.isolated or getattr(sys.flags, "safe_path", False))


def _leave_the_path() -> None:
    if _adds_folders() and sys.path and os.path.abspath(sys.path[0]) == _HERE:
        del sys.path[0]


def _load_agent(config: str) -> None:
    try:
        sys.path.insert(0, os.path.dirname(_HERE))
        try:
            import undermine_agent
            from undermine_agent.patching.patch import ImportWatch
        finally:
            del sys.path[0]
        undermine_agent.load(config)
        ImportWatch({"multiprocessing.spawn": lambda spawn: _reach_spawned(spawn, config)}).start()
    except Exception:
        pass


def _reach_spawned(spawn, config: str) -> None:
    """Spawned processes inherit the interpreter's options, so they would ignore PYTHONPATH too."""
    original, load = spawn.get_command_line, _LOAD % (os.path.dirname(_HERE), config)

    def get_command_line(**options):
        words = original(**options)
        if "-c" in words[:-1]:
            words[words.index("-c") + 1] = load + words[words.index("-c") + 1]
        return words

    spawn.get_command_line = get_command_line


def _new_main():
    """A fresh `__main__` for the program, with nothing of the agent in it."""
    main = type(sys)("__main__")
    main.__dict__.update(__builtins__=sys.modules["builtins"], __annotations__={})
    sys.modules["__main__"] = main
    return main


def _run_module(name: str) -> None:
    import runpy

    if _adds_folders():
        sys.path.insert(0, os.getcwd())
    _new_main()
    sys.argv[0] = "-m"
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]


def _run_script(path: str) -> None:
    if os.path.isdir(path) or _is_zipfile(path):
        import runpy

        sys.path.insert(0, os.path.abspath(path))
        _new_main()
        runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]
        return
    from _frozen_importlib_external import SourceFileLoader, SourcelessFileLoader

    if _adds_folders():
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    absolute = os.path.abspath(path)
    try:
        loader: SourcelessFileLoader | SourceFileLoader
        if path.endswith(".pyc"):
            loader = SourcelessFileLoader("__main__", absolute)
            code = loader.get_code("__main__")
        else:
            loader = SourceFileLoader("__main__", absolute)
            code = loader.source_to_code(loader.get_data(absolute), absolute)
    except OSError as error:
        sys.stderr.write("%s: can't open file %r: %s\n" % (sys.executable, absolute, error))
        sys.exit(2)
    main = _new_main()
    main.__dict__.update(__file__=absolute, __cached__=None, __loader__=loader)
    exec(code, main.__dict__)  # type: ignore[arg-type]


def _is_zipfile(path: str) -> bool:
    """Ask the path hooks who can import from there, as the interpreter does."""
    for find in sys.path_hooks:
        try:
            return type(find(path)).__name__ == "zipimporter"
        except ImportError:
            continue
    return False


if __name__ == "__main__":
    main()
