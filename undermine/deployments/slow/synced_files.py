"""The files of one node's folder as its disk is certain to hold them, and the folder as a power loss leaves it.

The supervisor reports each call that makes data durable, before the call continues. A file's content is then copied, and a
folder's entries are noted. Everything that changed since then is not synced, and a power loss may lose it:

    content   an fsync of the file, or a write through a descriptor with O_DSYNC or O_SYNC, makes it durable
    names     each of these makes all earlier changes of names durable, as a journal of metadata does (ext4, XFS). POSIX promises
              that only for the entries of a folder that is synced itself
    sizes     a truncated file loses the old content even if its new content is lost

Inodes are known by their number. Each is held open without access (O_PATH), so that no new file gets its number. A power loss
changes no inode: a file that loses data becomes a new file, since the old one may have names outside of the node's folder.
Runs inside the supervisor: imports only the standard library, and never looks at what the data means.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator

FILE_BYTES_MAX = 128 << 20
"""Larger files are not copied. They never lose content."""
BLOCK = 4096
_CHUNK = 1 << 20
_INODES_SPARE = 100
NAMES_KEPT = ("names", "prefix", "reordered")
"""The variants in which the disk has all names. The others lose names that are not synced."""


class Inode:
    """A file, folder or link that is in the node's folder, or was when something was synced."""

    def __init__(self, pin: int, copy: str) -> None:
        self.pin = pin
        self.mode = os.fstat(pin).st_mode
        self.link = os.readlink("", dir_fd=pin) if stat.S_ISLNK(self.mode) else ""
        self.copy = copy
        """The path of the copy of its synced content; no such file if nothing was ever synced."""
        self.size_min: int | None = None
        """The smallest size to which it was truncated since then."""
        self.always_synced = False
        """Its writes don't wait for an fsync, or it is too large to be copied."""
        self.names: dict[str, Inode] = {}
        """The entries of a folder that the disk has."""
        self.promised_names: dict[str, Inode] = {}
        """Those that POSIX promises: as they were when the folder itself was synced."""

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def keeps_content(self) -> bool:
        return self.always_synced or os.fstat(self.pin).st_size > FILE_BYTES_MAX


class SyncedFiles:
    """The synced state of one node's folder. `copies` is a folder of the tool for copies of synced files."""

    def __init__(self, folder: str, copies: str) -> None:
        self._folder = os.path.realpath(folder)
        self._copies = copies
        self._inodes: dict[tuple[int, int], Inode] = {}
        self._inodes_max = _INODES_SPARE
        self._device = os.stat(self._folder).st_dev
        self._copied = 0
        os.makedirs(copies, mode=0o700, exist_ok=True)
        self.sync_all()

    # --- what becomes durable

    def sync_descriptor(self, pid: int, fd: int) -> None:
        """Note that a process makes the file or folder behind its descriptor durable."""
        self._sync(f"/proc/{pid}/fd/{fd}")

    def sync_file(self, path: str) -> None:
        """Note that a process makes the file with this path durable."""
        if self._has(path):
            self._sync(path)

    def sync_all(self) -> None:
        """Note that everything in the folder is durable."""
        if root := self._root:
            self._sync_tree(self._folder, root)

    def writes_through(self, pid: int, fd: int) -> None:
        """Note that the writes to this descriptor are durable when they return."""
        opened = f"/proc/{pid}/fd/{fd}"
        inode = self._own(opened)
        if inode and inode.is_file:
            inode.always_synced = True
            self._save_all_names()

    def truncate_descriptor(self, pid: int, fd: int, size: int) -> None:
        self._truncate(f"/proc/{pid}/fd/{fd}", size)

    def truncate_file(self, path: str, size: int) -> None:
        self._truncate(os.path.realpath(path), size)

    def close(self) -> None:
        for inode in self._inodes.values():
            os.close(inode.pin)
        self._inodes.clear()

    @property
    def _root(self) -> Inode | None:
        """The node's folder; None if the node has removed it, or has put something else in its place."""
        root = self._inode(self._folder)
        return root if root and root.is_folder else None

    def _has(self, path: str) -> bool:
        return f"{path}/".startswith(f"{self._folder}/")

    def _own(self, opened: str) -> Inode | None:
        """The inode behind a descriptor; None if it is not in the node's folder."""
        try:
            path = os.readlink(opened)
        except OSError:
            path = opened
        return self._inode(opened, follow=True) if self._has(path) else None

    def _inode(self, path: str, *, follow: bool = False) -> Inode | None:
        """The inode with this path; None if it has gone meanwhile."""
        try:
            pin = os.open(path, os.O_PATH | (0 if follow else os.O_NOFOLLOW))
        except OSError as error:
            _raise_if_too_many(error)
            return None
        found = os.fstat(pin)
        key = found.st_dev, found.st_ino
        if key in self._inodes:
            os.close(pin)
        else:
            self._copied += 1
            self._inodes[key] = Inode(pin, os.path.join(self._copies, str(self._copied)))
        return self._inodes[key]

    def _sync(self, opened: str) -> None:
        inode = self._own(opened)
        if inode is None:
            return
        if inode.is_folder:
            inode.promised_names = self._entries(os.path.realpath(opened))
        elif inode.is_file:
            _copy(inode)
        self._save_all_names()
        if len(self._inodes) > self._inodes_max:
            self._forget_deleted()
            self._inodes_max = 2 * len(self._inodes) + _INODES_SPARE

    def _sync_tree(self, path: str, folder: Inode) -> None:
        folder.names = self._entries(path)
        folder.promised_names = dict(folder.names)
        for name, inode in folder.names.items():
            if inode.is_folder:
                self._sync_tree(os.path.join(path, name), inode)
            elif inode.is_file:
                _copy(inode)

    def _save_all_names(self) -> None:
        if root := self._root:
            self._save_names(self._folder, root)

    def _save_names(self, path: str, folder: Inode) -> None:
        """Note that all names in this folder, and in the folders below it, are durable."""
        folder.names = self._entries(path)
        for name, inode in folder.names.items():
            if inode.is_folder:
                self._save_names(os.path.join(path, name), inode)

    def _entries(self, path: str) -> dict[str, Inode]:
        """The entries that a folder has now."""
        found: dict[str, Inode | None] = {}
        try:
            with os.scandir(path) as entries:
                for entry in entries:  # a number of an inode that is held open means that inode
                    found[entry.name] = self._inodes.get((self._device, entry.inode())) or self._inode(entry.path)
        except OSError as error:  # the folder has gone meanwhile
            _raise_if_too_many(error)
        return {name: inode for name, inode in sorted(found.items()) if inode}

    def _truncate(self, opened: str, size: int) -> None:
        inode = self._own(opened)
        if inode and inode.is_file:
            inode.size_min = size if inode.size_min is None else min(size, inode.size_min)

    def _forget_deleted(self) -> None:
        """Release inodes that have no name any more, in the folder or on the disk."""
        folders = [one for one in self._inodes.values() if one.is_folder]
        named = {id(one) for folder in folders for names in (folder.names, folder.promised_names) for one in names.values()}
        for key, inode in list(self._inodes.items()):
            if id(inode) not in named and not os.fstat(inode.pin).st_nlink:
                os.close(inode.pin)
                if os.path.exists(inode.copy):
                    os.unlink(inode.copy)
                del self._inodes[key]

    # --- the power loss

    def lose(self, kept: str, at: float, spared: Collection[str] = ()) -> list[str]:
        """Change the folder to a state that the disk could have after a power loss; return what was lost, in words.

        All processes of the node must be dead. `spared` are paths that stay as they are. `kept` says what the disk has of
        everything that isn't synced:

            names      all names and truncations, but no data: a renamed file may be empty
            none       nothing
            prefix     all names, and of each file's changed range the part before position `at`, from 0 to 1
            reordered  all names and sizes, and only the last changed block of each file. The other blocks are old or zeros
            posix      nothing, and names only as POSIX promises
        """
        root = self._root
        if root is None or os.path.realpath(self._folder) != self._folder:
            raise OSError("its folder has gone, or a link leads to it now")
        keep = {os.path.realpath(path) for path in spared}
        with _acting_as_owner(self._folder):
            os.listdir(self._folder)  # raises if the owner cannot reach it
            if kept in NAMES_KEPT:
                lost = list(self._lose_data(self._folder, kept, at, keep))
            else:
                lost = list(self._restore(self._folder, root, kept == "posix", keep))
        self.close()
        for name in os.listdir(self._copies):
            os.unlink(os.path.join(self._copies, name))
        self.sync_all()  # everything that is there now was read from the disk
        return lost

    def _lose_data(self, path: str, kept: str, at: float, spared: Collection[str]) -> Iterator[str]:
        for name, inode in self._entries(path).items():
            below = os.path.join(path, name)
            if inode.is_folder:
                yield from self._lose_data(below, kept, at, spared)
            elif inode.is_file and not inode.keeps_content and below not in spared:
                now, synced = _content(inode), _synced(inode)
                left = surviving(synced[: inode.size_min], now, kept, at)
                if left != now:
                    os.unlink(below)
                    _create(below, inode, [left])
                    yield self._loss_of(below, synced, now)

    def _restore(self, path: str, folder: Inode, strict: bool, spared: Collection[str]) -> Iterator[str]:
        """Give a folder the entries and files that the disk has."""
        names = folder.promised_names if strict else folder.names
        before = self._entries(path)
        for name, inode in before.items():
            below = os.path.join(path, name)
            if names.get(name) is not inode and below not in spared:
                _remove(below, spared)
                yield f"the entry of {self._relative(below)}"
        for name, inode in sorted(names.items()):
            below = os.path.join(path, name)
            if below in spared or not (inode.is_folder or inode.link or inode.is_file):  # a socket or a pipe isn't data
                continue
            if name not in before:
                yield f"the removal of {self._relative(below)}"
            if inode.is_folder:
                is_new = not os.path.isdir(below)  # one with a spared file in it was not removed
                if is_new:
                    os.mkdir(below, 0o700)
                lost = list(self._restore(below, inode, strict, spared))
                yield from lost if name in before else ()  # its own name says enough
                if is_new:
                    _give(below, inode)
            elif inode.link:
                if before.get(name) is not inode:
                    os.symlink(inode.link, below)
            elif inode.is_file:
                yield from self._restore_file(below, inode, before.get(name) is inode)

    def _restore_file(self, path: str, inode: Inode, is_there: bool) -> Iterator[str]:
        if not is_there:
            _create(path, inode, _pieces(_opened(inode)) if inode.keeps_content else [_synced(inode)])
        elif not inode.keeps_content and (now := _content(inode)) != (synced := _synced(inode)):
            os.unlink(path)
            _create(path, inode, [synced])
            yield self._loss_of(path, synced, now)

    def _loss_of(self, path: str, synced: bytes, now: bytes) -> str:
        begin, end = changed_range(synced, now)
        return f"{end - begin} bytes of {self._relative(path)}"

    def _relative(self, path: str) -> str:
        return os.path.relpath(path, self._folder)


# --- contents


def surviving(synced: bytes, now: bytes, kept: str, at: float) -> bytes:
    """The content of a file after a power loss that keeps its name."""
    if synced == now:
        return now
    begin, end = changed_range(synced, now)
    if kept == "prefix":
        cut = begin + int((end - begin) * at)
        return now[:cut] + synced[cut:]
    if kept == "reordered":
        out = bytearray(synced[: len(now)].ljust(len(now), b"\0"))
        last = max(end - 1, 0) // BLOCK * BLOCK
        if begin < last:  # else the only changed block is lost
            out[last:end] = now[last:end]
        return bytes(out)
    return synced


def changed_range(old: bytes, new: bytes) -> tuple[int, int]:
    """The range of positions outside of which the two are equal."""
    begin, least = 0, min(len(old), len(new))
    while begin < least and old[begin : begin + BLOCK] == new[begin : begin + BLOCK]:
        begin += BLOCK
    begin = min(begin, least)
    while begin < least and old[begin] == new[begin]:
        begin += 1
    end = max(len(old), len(new))
    if len(old) == len(new):
        while end - BLOCK > begin and old[end - BLOCK : end] == new[end - BLOCK : end]:
            end -= BLOCK
        while end > begin and old[end - 1] == new[end - 1]:
            end -= 1
    return begin, end


def _copy(inode: Inode) -> None:
    """Copy the content of a file. Only parts that differ from the last copy are written, and holes are not read."""
    try:
        source = os.open(_opened(inode), os.O_RDONLY)
    except OSError as error:  # the tool may not read it
        _raise_if_too_many(error)
        inode.always_synced = True
        return
    target = os.open(inode.copy, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        size = os.fstat(source).st_size
        if size > FILE_BYTES_MAX:
            inode.always_synced = True
            return
        os.ftruncate(target, size)
        for at in sorted(_chunks(source) | _chunks(target)):
            data = os.pread(source, _CHUNK, at)
            if data != os.pread(target, _CHUNK, at):
                os.pwrite(target, data, at)
        inode.size_min = None
    finally:
        os.close(source)
        os.close(target)


def _chunks(fd: int) -> set[int]:
    """The positions of the chunks of a file that are not holes."""
    found: set[int] = set()
    end = 0
    try:
        while True:
            begin = os.lseek(fd, end, os.SEEK_DATA)
            end = os.lseek(fd, begin, os.SEEK_HOLE)
            found.update(range(begin // _CHUNK * _CHUNK, end, _CHUNK))
    except OSError:  # no more data
        return found


def _opened(inode: Inode) -> str:
    """A path that leads to the inode, whatever its names are."""
    return f"/proc/self/fd/{inode.pin}"


def _content(inode: Inode) -> bytes:
    return b"".join(_pieces(_opened(inode)))


def _synced(inode: Inode) -> bytes:
    user = os.geteuid()
    os.seteuid(os.getuid())  # only the tool can read the copies
    try:
        return b"".join(_pieces(inode.copy)) if os.path.exists(inode.copy) else b""
    finally:
        os.seteuid(user)


@contextlib.contextmanager
def _acting_as_owner(folder: str) -> Iterator[None]:
    """As root, change files as the owner of the node's folder: other nodes of that user may put links there meanwhile. The group
    of the folder above lets the owner in."""
    owner = os.lstat(folder)
    if os.getuid() != 0 or owner.st_uid == 0:
        yield
        return
    groups = os.getgroups()
    os.setgroups([os.stat(os.path.dirname(folder)).st_gid])
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(os.getgid())
        os.setgroups(groups)


def _pieces(path: str) -> Iterator[bytes]:
    with open(path, "rb") as stream:
        while piece := stream.read(_CHUNK):
            yield piece


def _create(path: str, inode: Inode, data: Iterable[bytes]) -> None:
    """Create a file with this content, and with the mode and owner of the inode. Links are never followed."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.writelines(data)
    _give(path, inode)


def _give(path: str, inode: Inode) -> None:
    """Give a new file or folder the mode and the owner of the inode."""
    old, new = os.fstat(inode.pin), os.lstat(path)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        os.chown(path, old.st_uid, old.st_gid)
    os.chmod(path, stat.S_IMODE(old.st_mode))


def _raise_if_too_many(error: OSError) -> None:
    """A file that cannot be opened has gone meanwhile, unless too many are open: then nothing is known."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise error


def _remove(path: str, spared: Collection[str]) -> None:
    """Remove a file or a whole folder, but nothing that is spared."""
    if path in spared:
        return
    if not os.path.isdir(path) or os.path.islink(path):
        os.unlink(path)
        return
    for name in os.listdir(path):
        _remove(os.path.join(path, name), spared)
    if not os.listdir(path):
        os.rmdir(path)
