"""The user's `undermine.toml`: its schema, its loading and its errors. Never starts anything and never imports user code."""
