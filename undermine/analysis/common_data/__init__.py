"""Operations that store the same data in two places. Reads traces; never decides what is injected."""
