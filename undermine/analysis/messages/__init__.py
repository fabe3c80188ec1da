"""Bytes and messages: which receive took which send, and which function handled it. Never looks at the bytes
themselves."""
