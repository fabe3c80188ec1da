"""Loads the Undermine agent if the environment asks for it, then runs the target's own sitecustomize.

Python imports this module at start-up because its folder is the first one in PYTHONPATH. It never breaks the host: if
the agent fails to load, the program starts as if the agent were not there. An exception from the target's own
sitecustomize belongs to the target and is passed on.
"""

import os
import sys


def _load_agent():
    try:
        import undermine_agent

        undermine_agent.load(os.environ["UNDERMINE_AGENT"])
    except Exception:
        pass


def _run_the_targets_own():
    from _frozen_importlib import _init_module_attrs
    from _frozen_importlib_external import PathFinder

    here = os.path.dirname(os.path.abspath(__file__))
    own = [os.path.abspath(folder) == here for folder in sys.path]
    rest = sys.path[own.index(True) + 1 :] if True in own else sys.path
    spec = PathFinder.find_spec("sitecustomize", [folder for folder in rest if os.path.abspath(folder) != here])
    if spec is None or spec.loader is None:
        return
    module = type(sys)("sitecustomize")
    _init_module_attrs(spec, module)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("UNDERMINE_AGENT"):
    _load_agent()
_run_the_targets_own()
