"""The commands of ``envgym``, a file each."""
