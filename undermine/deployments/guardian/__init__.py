"""The guardian: a small program that owns all nodes of one tool process and kills them when the tool ends.

A *node* is a process and all of its descendants, also those that called setsid, forked twice or cleared their
environment. Each node has a *keeper*: a fork of the guardian that is a subreaper (orphans become its children), so that the
node is exactly the keeper's descendants. The guardian is a subreaper above the keepers. If the tool gives a node a
cgroup, the keeper kills and freezes the node through it; it still checks /proc to see whether all processes are dead.

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
by itself: it acts only on requests and by the rules above. It loses processes that another program starts on a node's
behalf (a container daemon, cron, systemd-run).

Both sockets carry JSON objects, one per line. A request has `op` and `id`; its answer has `reply` (that id). A line with
`event` does not answer a request. Paths, arguments and environment travel as bytes decoded as Latin-1, so that they arrive
byte for byte whatever the locale.
"""
