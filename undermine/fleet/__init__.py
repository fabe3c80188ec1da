"""Runs a campaign's plans on the workers of a Dask cluster. Never proposes, judges or stores a run.

A campaign uses `engine.py` like the engine of this machine. The project travels to each worker once, as a bundle that is named by
its content. Then every plan goes to one worker, which has the same runner, and its run folder comes back as one packed file. All
messages are bytes that `messages.py` describes; Dask carries them and never unpickles anything of a target.

| file | what it does |
|---|---|
| `engine.py` | the engine, on the client's machine |
| `roster.py` | which worker runs what, and how many runs each has at a time |
| `tempo.py` | the number of runs at a time that a worker carries, from measured lateness |
| `cluster.py` | the connection to Dask |
| `tasks.py`, `station.py` | the worker's side |
| `bundles.py`, `results.py` | what is packed on one side and unpacked on the other |
"""
