"""``python -m envgym_trainer`` is ``trainer-train``: what launchers of several processes are given."""

from envgym_trainer.cli import train_command

if __name__ == "__main__":
    train_command()
