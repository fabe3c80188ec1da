"""Files that people pass on: bundles, plan files, suppressions. Treats them as a stranger's files and never runs them."""
