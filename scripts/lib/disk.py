"""The contents of a disk after a power loss: everything that was flushed, and of the rest whatever
was written by then.

The log that scripts/power-loss.c writes is replayed over the original files. A flush makes durable
what was written to its file before the flush started; a flush of the folder does so for names.
Later changes, and those never flushed, are on the disk or not, sector by sector, at random; names
were created, changed or deleted up to some moment.
"""

import dataclasses
import os
import shutil
import struct

SECTOR = 512
RECORD = struct.Struct("<IIQQQ")
OPENED, CREATED, WRITE, LENGTH, SYNC_BEGINS, SYNC_ENDS, UNLINK, RENAME = range(1, 9)


def read_log(path):
    """The records, as (kind, sync, inode, offset, bytes). A truncated last one is skipped."""
    data = path.read_bytes()
    records, at = [], 0
    while at + RECORD.size <= len(data):
        kind, sync, inode, offset, length = RECORD.unpack_from(data, at)
        at += RECORD.size
        if at + length > len(data):
            break
        records.append((kind, sync, inode, offset, data[at : at + length]))
        at += length
    return records


def put(content, offset, data):
    """Writes to a file's content, with zeros in gaps."""
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def cut_to(content, length):
    if length < len(content):
        del content[length:]
    else:
        content.extend(bytes(length - len(content)))


class File:
    """The durable content of a file, and the changes since."""

    def __init__(self, content=b""):
        self.durable = bytearray(content)
        self.pending = []
        self.flushed = 0

    def count(self):
        """The number of changes."""
        return self.flushed + len(self.pending)

    def flush(self, count):
        """Makes those of the first `count` changes durable that are not yet."""
        while self.flushed < count and self.pending:
            self._apply(self.durable, self.pending.pop(0))
            self.flushed += 1

    @staticmethod
    def _apply(content, change):
        offset, data = change
        if data is None:
            cut_to(content, offset)
        else:
            put(content, offset, data)

    def as_written(self):
        """With all changes: what the operating system shows."""
        content = bytearray(self.durable)
        for change in self.pending:
            self._apply(content, change)
        return bytes(content)

    def after_power_loss(self, random, share, losses):
        """With each unflushed sector kept or lost at random; `share` of them are kept."""
        content = bytearray(self.durable)
        for offset, data in self.pending:
            if data is None:
                if random.random() < share:
                    cut_to(content, offset)
                continue
            at, kept, sectors = 0, 0, 0
            while at < len(data):
                # Up to the next sector boundary of the disk.
                length = min(SECTOR - (offset + at) % SECTOR, len(data) - at)
                sectors += 1
                if random.random() < share:
                    put(content, offset + at, data[at : at + length])
                    kept += 1
                at += length
            losses.sectors += sectors
            losses.sectors_lost += sectors - kept
            losses.writes_torn += 0 < kept < sectors
        return bytes(content)


@dataclasses.dataclass
class Losses:
    """The total losses of all power cuts."""

    flushes: int = 0
    sectors: int = 0
    sectors_lost: int = 0
    writes_torn: int = 0
    names_lost: int = 0


class Disk:
    """A folder of files, advanced by a log.

    `synchronous` is how the disk treats flushes: `full` keeps them, `off` ignores them, and
    `normal` ignores those of a write-ahead log (-wal) until the file that it belongs to is written
    to, as SQLite's setting of that name does.
    """

    def __init__(self, folder, synchronous="full"):
        self.synchronous = synchronous
        self.names = {name: File(content) for name, content in read_folder(folder).items()}
        self.durable_names = dict(self.names)
        self.name_changes = []
        self.names_flushed = 0
        self.by_inode = {}
        self.beginnings = {}
        self.promised = {}
        self.losses = Losses()

    def play(self, records):
        for record in records:
            self._step(*record)

    def _step(self, kind, sync, inode, offset, data):
        if kind in (OPENED, CREATED):
            self._open(kind, inode, data.decode())
        elif kind in (WRITE, LENGTH):
            file = self.by_inode[inode]
            self._keep_promise(file)
            file.pending.append((offset, data if kind == WRITE else None))
        elif kind == SYNC_BEGINS:
            file = self.by_inode[inode]
            self.beginnings[sync] = len(self.name_changes) if file is None else file.count()
        elif kind == SYNC_ENDS:
            self._flush(inode, self.beginnings.pop(sync))
        elif kind == UNLINK:
            self._rename(data.decode(), None)
        elif kind == RENAME:
            self._rename(*data.decode().split("\0"))

    def _open(self, kind, inode, name):
        if name == "":
            # The folder itself.
            self.by_inode[inode] = None
            return
        if kind == CREATED:
            self.names[name] = File()
            self.name_changes.append(dict(self.names))
        self.by_inode[inode] = self.names[name]

    def _rename(self, name, target):
        file = self.names.pop(name)
        if target is not None:
            self.names[target] = file
        self.name_changes.append(dict(self.names))

    def _flush(self, inode, count):
        self.losses.flushes += 1
        if self.synchronous == "off":
            return
        file = self.by_inode[inode]
        if file is None:
            if count:
                self.durable_names = self.name_changes[count - 1]
                self.names_flushed = count
            return
        name = next((name for name, other in self.names.items() if other is file), "")
        if self.synchronous == "normal" and name.endswith("-wal"):
            self.promised[name.removesuffix("-wal")] = (file, count)
            return
        file.flush(count)

    def _keep_promise(self, file):
        """A write-ahead log is flushed before the changes that it logs are written in place."""
        for name, (log, count) in list(self.promised.items()):
            if self.names.get(name) is file:
                log.flush(count)
                del self.promised[name]

    def as_written(self):
        return {name: file.as_written() for name, file in self.names.items()}

    def after_power_loss(self, random):
        """The files after the power is back."""
        states = [self.durable_names, *self.name_changes[self.names_flushed :]]
        names = random.choice(states)
        self.losses.names_lost += len(set(self.names) - set(names))
        share = random.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        # A disk that keeps all of one file may still lose all of another.
        return {name: file.after_power_loss(random, random.choice([share, random.random()]), self.losses) for name, file in names.items()}


def read_folder(folder):
    """The files of the database, without SQLite's shared memory, which is recreated after a crash,
    and without the folders beside them (uploads, emails), which the ledger does not need."""
    files = [path for path in folder.iterdir() if path.is_file() and not path.name.endswith("-shm")]
    return {path.name: path.read_bytes() for path in files}


def write_folder(folder, files):
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name, content in files.items():
        path = folder / name
        path.write_bytes(content)
        os.chmod(path, 0o600)
