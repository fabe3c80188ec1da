"""From failing runs to a short list of bugs. Never runs a plan: it says what to run next."""
