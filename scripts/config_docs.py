"""Write docs/config.md from the texts below the fields of envgym_trainer.config; --check only compares."""

import sys
from pathlib import Path

from envgym_trainer.cli import GROUPS, SCHEMAS, USAGE
from envgym_trainer.command_line import default_values, group_options
from envgym_trainer.config_reference import keys

TARGET = Path(__file__).parents[1] / "docs" / "config.md"
HEAD = """# Configuration

Made by `uv run python scripts/config_docs.py`; the texts stand in `packages/trainer/src/envgym_trainer/config.py`.

Keys are set on the command line as `KEY=VALUE`. An unknown key or a wrong value ends the command with one line
and exit code 2. `env:`, `engine.args:` and `deepspeed:` are open: what is in them is checked by the env's
signature, by the engine and by DeepSpeed. The defaults shown are those with `model=tiny` (for `trainer-sft`: with
`model=FOLDER`).
"""


def page() -> str:
    return HEAD + "".join(section(name) for name in SCHEMAS)


def section(name: str) -> str:
    values = default_values(name, SCHEMAS[name])
    lines = ["", f"## trainer-{name}", "", f"`{USAGE[name].splitlines()[0]}`", ""]
    lines += [
        f"- `{group}=` {', '.join(f'`{option}`' for option in group_options(group))}" for group in GROUPS[name]
    ]
    lines += ["", "| key | default | meaning |", "|---|---|---|"]
    for key in keys(SCHEMAS[name]):
        text = key.text.replace("``", "`").replace("|", "\\|")
        lines.append(f"| `{key.name}` | {shown(values[key.name])} | {text} |")
    return "\n".join(lines) + "\n"


def shown(value: object) -> str:
    return "" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def main() -> int:
    text = page()
    if "--check" in sys.argv:
        if not TARGET.is_file() or TARGET.read_text(encoding="utf-8") != text:
            print("docs/config.md is out of date; run uv run python scripts/config_docs.py", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
