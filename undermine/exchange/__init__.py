"""Files that people pass on: bundles, plan files, suppressions. Treats them as untrusted and never runs them."""
