"""Judging whether two mathematical answers are the same.

What can be decided from the text alone is decided at once (`text`, `reading`); the rest goes to a pool of
killable processes (`pool`, `nursery`), and only those load a computer algebra system (`symbolic`).
"""
