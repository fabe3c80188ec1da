"""Where slow I/O may hurt: locks that were held, time limits in force, and waiters. Never decides what is delayed."""
