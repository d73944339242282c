"""envgym_trainer: reinforcement learning on the output of a generator, with DeepSpeed ZeRO-3."""
