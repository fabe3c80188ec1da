"""One node of a three-node PySyncObj cluster. The first one does the operations and prints their duration."""

from __future__ import annotations

import sys
import time

from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.batteries import ReplCounter, ReplDict


def main() -> None:
    own, peers, folder, operations = sys.argv[1], sys.argv[2].split(","), sys.argv[3], int(sys.argv[4])
    counter, store = ReplCounter(), ReplDict()
    conf = SyncObjConf(
        appendEntriesUseBatch=False,
        journalFile=f"{folder}/journal",
        raftMinTimeout=0.4 if operations else 1.5,
        raftMaxTimeout=0.8 if operations else 3.0,
    )
    node = SyncObj(own, peers, consumers=[counter, store], conf=conf)
    while not node.isReady() or node._getLeader() is None:
        time.sleep(0.01)
    if not operations:
        while True:
            time.sleep(1)
    begun = time.monotonic()
    for number in range(operations):
        counter.inc(sync=True)
        store.set(f"k{number % 10}", number, sync=True)
    print(f"took {time.monotonic() - begun:.4f}", flush=True)


if __name__ == "__main__":
    main()
