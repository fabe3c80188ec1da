"""The adapter `line_protocol`: each line that `line_protocol.Connection` sends or receives is one message.

Runs inside the target: it uses only the standard library and supports every Python that the target may run on.
"""


def install(hooks):
    hooks.when_imported("line_protocol", lambda module: hook(hooks, module))


def hook(hooks, module):
    hooks.function(
        module.Connection,
        "send_line",
        op="msg.send",
        kind=lambda connection, line: line.split()[0],
        peer=lambda connection, *args: connection.address,
        size=lambda connection, line: len(line),
        dropped=None,
    )
    hooks.function(
        module.Connection,
        "receive_line",
        op="msg.recv",
        kind=lambda line, connection: line and line.split()[0],
        peer=lambda connection, *args: connection.address,
        of_result=True,
    )
