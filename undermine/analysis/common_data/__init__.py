"""Which operations move or store the same data. It never says whether that is a mistake."""
