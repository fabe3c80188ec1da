"""From failing runs to a short list of bugs."""
