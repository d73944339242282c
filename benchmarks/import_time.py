"""Time of ``import envgym`` over time of ``import gymnasium``, which it builds on: at most 2 is the aim.

uv run python benchmarks/import_time.py
"""

import subprocess
import sys
from statistics import median

ROUNDS = 15
CODE = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def seconds(module: str) -> float:
    """Seconds of an import in a process of its own."""
    run = subprocess.run([sys.executable, "-c", CODE.format(module)], capture_output=True, text=True, check=True)
    return float(run.stdout)


def main() -> None:
    pairs = [(seconds("envgym"), seconds("gymnasium")) for _ in range(ROUNDS + 1)][1:]  # the first warms the disk
    ours, theirs = (median(pair[side] for pair in pairs) for side in (0, 1))
    ratio = median(ours / theirs for ours, theirs in pairs)
    print(f"import envgym {ours * 1000:.0f} ms, import gymnasium {theirs * 1000:.0f} ms")
    print(f"ratio of a pair: {ratio:.2f} (median of {ROUNDS})")


if __name__ == "__main__":
    main()
