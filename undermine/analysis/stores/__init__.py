"""External stores: which of their operations made another one possible, by key and by value. Never asks a store."""
