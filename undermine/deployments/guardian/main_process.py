"""The last steps before a node's main process runs its command: join its cgroup and network, open its files, execute."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import traceback
from typing import Any, NoReturn

from .channel import ALL_SIGNALS, unblock_signals
from .control_group import ControlGroup
from .kernel import PR_SET_PDEATHSIG, enter_network, install_filter, prctl


def exec_node(spec: dict[str, Any], keeper: int, failure_fd: int) -> NoReturn:
    """In the child: become the node's main process, or write the failed stage and the reason to `failure_fd`."""
    stage = "cgroup"
    try:
        ControlGroup(spec["cgroup"]).add_caller()
        stage = "netns"
        enter_network(spec["netns"])
        stage = "process"
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in ALL_SIGNALS - {signal.SIGKILL, signal.SIGSTOP}:
            if signal.getsignal(number) is not signal.SIG_DFL:
                signal.signal(number, signal.SIG_DFL)
        argv, env, files = _spec_bytes(spec)
        env[b"UNDERMINE_KEEPER"] = b"%d" % keeper
        env[b"UNDERMINE_PGID"] = b"%d" % os.getpid()
        stage = "stdin"
        os.dup2(os.open(b"/dev/null", os.O_RDONLY), 0)
        user = spec.get("user")
        for fd, stage in ((1, "stdout"), (2, "stderr")):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY
            os.dup2(os.open(files[stage], flags, 0o600), fd)
            if user:
                os.fchown(fd, user["uid"], user["gid"])  # programs open /dev/stdout
        os.umask(spec["umask"])
        if spec.get("trap"):
            stage = "trap"
            _install_trap(spec["trap"])
        if user:
            stage = "user"
            os.setgroups(user["groups"])
            os.setgid(user["gid"])
            os.setuid(user["uid"])
        stage = "process"
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of the user clears it
        if os.getppid() != keeper:
            os._exit(127)
        stage = "cwd"
        os.chdir(files["cwd"])
        stage = "command"
        unblock_signals()
        _exec(argv, env)
    except OSError as error:
        os.write(failure_fd, json.dumps({"stage": stage, "errno": error.errno or errno.EINVAL}).encode())
    except BaseException:  # the fork must never return into the keeper's code
        text = json.dumps({"stage": stage, "errno": errno.EINVAL, "trace": traceback.format_exc()[-3000:]})
        os.write(failure_fd, text.encode())
    finally:
        os._exit(127)


def _install_trap(trap: dict[str, str]) -> None:
    """Install a filter, so that the supervisor of slow disks answers chosen system calls of this process and its descendants."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.connect(trap["door"].encode("latin-1"))
        listener = install_filter(trap["program"].encode("latin-1"))
        try:
            socket.send_fds(door, [trap["name"].encode("latin-1")], [listener])
        finally:
            os.close(listener)  # before any call that may be trapped: this process cannot answer itself
        if door.recv(1) != b"+":
            raise OSError(errno.ECONNREFUSED, "the supervisor did not take the listener")


def _spec_bytes(spec: dict[str, Any]) -> tuple[list[bytes], dict[bytes, bytes], dict[str, bytes]]:
    return (
        [word.encode("latin-1") for word in spec["argv"]],
        {name.encode("latin-1"): value.encode("latin-1") for name, value in spec["env"].items()},
        {name: spec[name].encode("latin-1") for name in ("cwd", "stdout", "stderr")},
    )


def _exec(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Call execve with the node's own PATH; raise the most informative error."""
    if b"/" in argv[0]:
        os.execve(argv[0], argv, env)
    likeliest = OSError(errno.ENOENT, "not found")
    for folder in env.get(b"PATH", os.defpath.encode()).split(b":"):
        program = os.path.join(folder or b".", argv[0])
        try:
            os.execve(program, argv, env)
        except OSError as error:
            if os.path.exists(program):  # else the folder is missing or unreadable
                likeliest = error
    raise likeliest
