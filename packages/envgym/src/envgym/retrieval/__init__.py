"""Retrievers: where the ``search`` env finds its documents."""
