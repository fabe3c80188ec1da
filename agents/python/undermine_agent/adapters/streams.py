"""asyncio's streams: writes or reads at one call site of the target are one kind of message."""

from __future__ import annotations

READING = ("read", "readline", "readexactly", "readuntil")


def install(hooks) -> None:
    hooks.when_imported("asyncio.streams", lambda module: hook(hooks, module))


def hook(hooks, module) -> None:
    def sent(writer, *args):
        return hooks.caller()

    def received(data, reader, *args, **options):
        return hooks.caller() if data else None

    def length(data, *args, **options):
        return len(data or b"")

    for name in ("write", "writelines"):
        hooks.function(module.StreamWriter, name, "msg.send", sent, peer=socket_of, size=length_written)
    for name in READING:
        hooks.function(module.StreamReader, name, "msg.recv", received, peer=socket_of, size=length, of_result=True)


def socket_of(stream, *args, **options):
    transport = stream._transport
    return transport.get_extra_info("socket") if transport is not None else None


def length_written(writer, data) -> int:
    return len(data) if isinstance(data, (bytes, bytearray, memoryview)) else sum(map(len, data))
