"""Running and judging SQL that a model wrote: workers, comparators, mutated copies, layouts, preflight.

This file imports nothing: worker processes import through it, and must start in milliseconds.
"""
