"""Task worlds made by code from a seed, so that every env plays without any download."""
