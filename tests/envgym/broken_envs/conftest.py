"""The modules of this folder are envs to be checked in processes of their own; pytest collects nothing here."""

collect_ignore_glob = ["*.py"]
