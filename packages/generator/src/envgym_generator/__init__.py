"""envgym_generator: rollouts of envgym environments, with every token accounted for."""
