"""Variables of the target: their paths, their texts, and the samples of changed values.

`paths` finds values, `reasons` says why a path finds none, `texts` writes them, `locks` says whether a value may be
half changed, and `samples` reads all variables of the node, records what changed and publishes it; `survey` looks for
attributes that could be variables. Nothing here calls code of the target.
"""
