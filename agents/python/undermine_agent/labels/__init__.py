"""Labels: which bytes of which operation a value was made from, if the configuration asks for them.

`rewriting` puts hooks into the code that moves values, `imports` applies it to the target's modules. `table` keeps the
labels of values beside them; the values themselves stay as they are. `operators`, `texts`, `formatting`, `functions`,
`formats`, `json_format` and `streams` say how labels flow.
"""
