"""The guardian: a small program that keeps every node of one tool process, and lets nothing outlive it.

A *node* is a process and all of its descendants, also those that called setsid, forked twice or cleared their
environment. Each node has a *keeper*: a fork of the guardian that is a subreaper (orphans become its children), so that the
node is exactly the keeper's descendants. The guardian is a subreaper above the keepers. Where the tool gives a node a
cgroup, the node is killed and frozen through it; its end is still found by looking.

    tool ──socketpair──> guardian ──socketpair──> keeper ──> main process of the node ──> its descendants

If one of them dies, another one cleans up:

    tool (SIGKILL, exit)  the guardian sees the end of the socket or of the process: kills all nodes, removes
                          the scratch folders, exits
    guardian              each keeper sees it (parent-death signal, end of the socket): kills its node, exits
    keeper                the node's processes become children of the guardian, which kills them
    tool and guardian     the keepers, as above; folders are left to `sweep`
    all three             the main process gets SIGKILL by its parent-death signal; the rest: `sweep`

The tool runs it as `python -I -S guardian/__main__.py SOCKET_FD TOOL_PID`. It has one thread and imports only the standard
library and its own files, so that it starts fast and nothing of the target's environment reaches it. It never decides
anything by itself: it starts, stops and kills what it is told, and what the rules above say. It cannot hold processes that
leave the tree through another program (a container daemon, cron, systemd-run).

Both sockets carry JSON objects, one a line. A request has `op` and `id`, its answer has `reply` (that id); a line with
`event` was not asked for. Paths, arguments and environment travel as bytes decoded as Latin-1, so that they arrive byte for
byte whatever the locale.
"""
