"""Play one episode with nothing but the envgym wheel installed, and see that no torch came with it."""

import sys

import gymnasium

import envgym

assert "search" in envgym.env_names()
env = gymnasium.make("envgym/search-v0")
env.reset(seed=0)
over = False
while not over:
    _, reward, terminated, truncated, info = env.step("<answer>nothing</answer>")
    over = terminated or truncated
assert "torch" not in sys.modules, "envgym loaded torch"
print(f"played envgym/search-v0: reward {reward}, success {info['success']}")
