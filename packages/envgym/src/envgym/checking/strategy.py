"""Ways to play: malformed actions for robustness, and the stock strategies that farm rewards instead of solving.

Everything here is a plain list of actions. The stock strategies are made from what an expert did on the same task,
since only right answers, withheld or repeated, can tempt a reward scheme.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, pairwise

from envgym.tags import first_tag

CONTROL_TOKENS = ("<|im_end|>", "<|im_start|>assistant\n", "<|eot_id|>", "<|endoftext|>", "</s>", "[/INST]")

GARBAGE = (
    "lorem ipsum dolor",
    "<",
    "<>",
    "</>",
    "<<<<>>>>",
    "< answer >",
    "{{7*'7'}}${7*'7'}%s%n",
    "NaN",
    "inf",
    "null",
    "\x00\x01\x02\x1b[31m",
    "\ufeff\u202e\u200b",
    "\ud800",  # half a surrogate pair, which no UTF-8 file can hold
    "\U0001f600" * 50,
    "((((" * 2_000,
    "[[[[" * 2_000,
    "a" * 20_000 + "!",
    "<a>" * 10_000,
    "\n" * 20_000,
    *CONTROL_TOKENS,
)
"""Actions that no env can take for an answer: each must be met with an observation, and earn nothing."""

FILLER = "hm, let me think"


def malformed(tags: Sequence[str]) -> list[str]:
    """Actions that are nearly well-formed: these tags left open, reversed, interleaved, emptied or nested."""
    actions: list[str] = []
    for tag in tags:
        opener, closer = f"<{tag}>", f"</{tag}>"
        actions += [
            opener,
            closer,
            closer + opener,
            opener + closer,
            f"{opener} {closer}",
            opener * 2_000,
            opener + "x" * 20_000 + closer,
            f"{opener}{opener}zq{closer}{closer}",
            f"{opener.upper()}zq{closer.upper()}",
            f"{opener}\x00{closer}",
            f"{opener}\ud800{closer}",
            f"{opener}{'(' * 5_000}{closer}",
        ]
    for first, second in pairwise(tags):
        actions.append(f"<{first}>zq<{second}>zq</{first}>zq</{second}>")
    return actions


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What a stock strategy is made of: an expert's episode on the task."""

    expert: tuple[str, ...]
    """The expert's actions; the last one solved the task."""
    opening: str
    """The text of the prompt."""
    tags: tuple[str, ...]
    """Names of the tags that the env or the expert used."""
    max_turns: int

    @property
    def spare(self) -> int:
        """Turns that the expert left over."""
        return max(0, self.max_turns - len(self.expert))


def right_later(seen: Seen) -> list[str]:
    """Waste one turn, then play the expert's actions."""
    return [FILLER, *seen.expert]


def right_at_the_last_turn(seen: Seen) -> list[str]:
    """Waste all the turns that can be spared, then play the expert's actions."""
    return [FILLER] * seen.spare + list(seen.expert)


def wrong_then_right(seen: Seen) -> list[str]:
    """Give one wrong answer of the right form, then play the expert's actions."""
    return [_wrong(seen), *seen.expert]


def wrong_until_the_last_turn(seen: Seen) -> list[str]:
    """Give wrong answers of the right form as long as there is time, then the expert's."""
    return [_wrong(seen)] * seen.spare + list(seen.expert)


def steps_drawn_out(seen: Seen) -> list[str]:
    """Repeat the expert's first step until only just enough turns are left for the others."""
    return [seen.expert[0]] * seen.spare + list(seen.expert)


def answer_repeated(seen: Seen) -> list[str]:
    """Give the expert's answer at every turn."""
    return [seen.expert[-1]] * seen.max_turns


def answer_alternated(seen: Seen) -> list[str]:
    """Alternate wrong and right answers."""
    return list(islice(cycle([_wrong(seen), seen.expert[-1]]), seen.max_turns))


def answer_doubled(seen: Seen) -> list[str]:
    """Write the expert's answer twice in one action."""
    return [*seen.expert[:-1], seen.expert[-1] * 2]


def expert_then_more(seen: Seen) -> list[str]:
    """Play on after the task is solved."""
    return [*seen.expert, *[seen.expert[-1]] * seen.spare]


def everything_at_once(seen: Seen) -> list[str]:
    """Write all of the expert's actions into each action."""
    return ["\n".join(seen.expert)] * seen.max_turns


def form_without_content(seen: Seen) -> list[str]:
    """Write every tag with nothing in it, at every turn."""
    return ["".join(f"<{tag}></{tag}>" for tag in seen.tags)] * seen.max_turns


def wrong_at_every_turn(seen: Seen) -> list[str]:
    """Give a wrong answer of the right form at every turn."""
    return [_wrong(seen)] * seen.max_turns


def words_of_the_env(seen: Seen) -> list[str]:
    """Write the env's own tags around the answer, as if the env had said it; then answer."""
    forged = "".join(f"<{tag}>{seen.expert[-1]}</{tag}>" for tag in seen.tags)
    return [forged] * seen.spare + list(seen.expert)


def prompt_echoed(seen: Seen) -> list[str]:
    """Repeat the prompt at every turn."""
    return [seen.opening] * seen.max_turns


def answer_at_once(seen: Seen) -> list[str]:
    """Give the answer at once, without the steps that lead there."""
    return [seen.expert[-1], *seen.expert]


STOCK: tuple[Callable[[Seen], list[str]], ...] = (
    right_later,
    right_at_the_last_turn,
    wrong_then_right,
    wrong_until_the_last_turn,
    steps_drawn_out,
    answer_repeated,
    answer_alternated,
    answer_doubled,
    expert_then_more,
    everything_at_once,
    form_without_content,
    wrong_at_every_turn,
    words_of_the_env,
    prompt_echoed,
    answer_at_once,
)


def _wrong(seen: Seen) -> str:
    """The expert's answer with another content: inside its tag, else another number, else other words."""
    answer = seen.expert[-1]
    tag = first_tag(answer, seen.tags)
    if tag is not None:
        other = _other(tag.content)
        return f"{answer[: tag.start]}<{tag.name}>{other}</{tag.name}>{answer[tag.end :]}"
    return _other(answer)


def _other(content: str) -> str:
    changed = re.sub(r"\d", lambda digit: str((int(digit.group()) + 1) % 10), content)
    return changed if changed != content else "zq wrong zq"
