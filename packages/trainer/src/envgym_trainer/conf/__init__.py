"""The yaml files that hydra composes a config from."""
