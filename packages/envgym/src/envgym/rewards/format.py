"""A reward for thinking inside one tag and then answering inside another, whatever the answer is."""

from envgym.rewards.outcome import Outcome
from envgym.tags import Tag, check_tag_name, last_tag

THINK_SHARE = 0.25
ANSWER_SHARE = 0.75


def format_reward(
    ground_truth: str, response: str, think_tag: str = "think", answer_tag: str = "answer"
) -> Outcome:
    """Give 0.25 for a well-formed think tag and 0.75 for a well-formed answer tag.

    A tag is well-formed if it is opened once, closed once after that, not empty, and if the other tag neither
    starts nor ends inside it. Thinking counts only before the answer.

    Args:
        ground_truth: not used.
        response: the whole response.
        think_tag: name of the tag to think in.
        answer_tag: name of the tag to answer in.

    Returns:
        The reward with verdict None (format says nothing about correctness) and the terms ``think`` and
        ``answer``.

    Raises:
        ValueError: if a tag name is malformed or both are the same.

    >>> format_reward("", "<think>2 + 2</think> <answer>4</answer>").reward
    1.0
    """
    if check_tag_name(think_tag) == check_tag_name(answer_tag):
        raise ValueError(f"think_tag and answer_tag are both {think_tag!r}; they must differ")
    think = _well_formed(response, think_tag, answer_tag)
    answer = _well_formed(response, answer_tag, think_tag)
    if think and answer and answer.start < think.start:
        think = None
    terms = {"think": THINK_SHARE * bool(think), "answer": ANSWER_SHARE * bool(answer)}
    status = "ok" if answer else "no_answer"
    return Outcome(sum(terms.values()), None, status, terms)


def _well_formed(response: str, name: str, other: str) -> Tag | None:
    if response.count(f"<{name}>") != 1 or response.count(f"</{name}>") != 1:
        return None
    tag = last_tag(response, name)
    if tag is None or not tag.content.strip():
        return None
    crossed = f"<{other}>" in tag.content or f"</{other}>" in tag.content
    return None if crossed else tag
