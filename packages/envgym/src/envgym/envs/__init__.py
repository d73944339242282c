"""The envs that come with envgym."""
