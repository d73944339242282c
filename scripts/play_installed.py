"""Play one episode with nothing but the envgym wheel installed, and see that no torch came with it."""

import sys

import gymnasium

import envgym

env = gymnasium.make(f"envgym/{envgym.env_names()[0]}-v0")
env.reset(seed=0)
over = False
while not over:
    _, reward, terminated, truncated, info = env.step("<answer>nothing</answer>")
    over = terminated or truncated
assert "torch" not in sys.modules, "envgym loaded torch"
print(f"played {env.spec.id if env.spec else env}: reward {reward}, success {info['success']}")
