"""Checks that read recorded episodes: what was shown, what was paid, and how it ended."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import cast

from envgym.checking.episode import Episode, Step, is_number, items_of, messages_of, plain_info, shorten
from envgym.checking.report import Fault, NotApplicable
from envgym.checking.subject import Subject, says

SLACK = 1e-9


def never_raises(subject: Subject) -> None:
    """No action makes ``reset`` or ``step`` raise: what the model did wrong is an observation."""
    for episode in _played(subject):
        if episode.crash is not None and not episode.broke_its_range:
            raise Fault(f"{episode.name}: {episode.crash}")


def observations(subject: Subject) -> None:
    """Observations are tuples of messages: new ones only, in valid Unicode, never the assistant's."""
    for episode in _played(subject):
        for turn, observation in enumerate(episode.observations):
            fault = _fault_of_observation(observation)
            if fault is None and turn == 0 and not observation and episode.crash is None:
                fault = "is empty"
            if fault is None and turn > 0 and _repeats(episode.opening, observation):
                fault = "repeats the opening; only new messages are returned"
            if fault is not None:
                where = "the opening" if turn == 0 else f"the observation of turn {turn}"
                raise Fault(f"{episode.name}: {where} {fault}")


def _fault_of_observation(observation: object) -> str | None:
    if not isinstance(observation, tuple):
        return f"is a {type(observation).__name__}, not a tuple of messages"
    messages = messages_of(cast(object, observation))
    for message in messages:
        if message.role == "assistant":
            return "holds a message of the assistant"
        if not _is_unicode(message.text):
            return f"holds half a surrogate pair: {shorten(repr(message.text))}"
    if len(messages) < len(items_of(cast(object, observation))):
        return "holds something that is not a Message"
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _repeats(opening: object, observation: object) -> bool:
    first = messages_of(opening)
    return bool(first) and messages_of(observation)[: len(first)] == first and len(messages_of(observation)) > 1


def ends(subject: Subject) -> None:
    """An episode ends by ``terminated`` when its turns are used up, and never by ``truncated``."""
    for episode in _played(subject):
        if any(step.truncated for step in episode.steps):
            raise Fault(f"{episode.name}: truncated at turn {len(episode.steps)}; an env only terminates")
        if len(episode.steps) > episode.max_turns:
            raise Fault(f"{episode.name}: it goes on after turn {episode.max_turns}, its max_turns")
        if any(not isinstance(step.terminated, bool) for step in episode.steps):
            raise Fault(f"{episode.name}: terminated is not a bool")


def reward_range(subject: Subject) -> None:
    """Rewards are finite numbers; each of them and their sum lie inside the declared range."""
    low, high = subject.env.reward_range
    for episode in _played(subject):
        for turn, step in enumerate(episode.steps, 1):
            if not is_number(step.reward):
                raise Fault(f"{episode.name}: the reward of turn {turn} is {step.reward!r}")
            if not low - SLACK <= step.reward <= high + SLACK:
                raise Fault(f"{episode.name}: the reward of turn {turn} is {step.reward}, outside ({low}, {high})")
        if episode.total < low - SLACK:
            raise Fault(f"{episode.name}: the rewards add up to {episode.total}, below {low}")
    for episode in chain(subject.expert, subject.empty, subject.garbage, subject.malformed):
        if episode.total > high + SLACK:
            raise Fault(f"{episode.name}: the rewards add up to {episode.total}, above {high}")


def last_info(subject: Subject) -> None:
    """Every ``info`` has finite ``reward_terms``; the last one also has ``success`` and ``metrics``."""
    for episode in _played(subject):
        for step in episode.steps:
            if fault := _fault_of_info(step):
                raise Fault(f"{episode.name}: {fault}")


def _fault_of_info(step: Step) -> str | None:
    if step.info is None:  # a step that TextEnv itself refused
        return None
    info = plain_info(step.info)
    expected = ("reward_terms", "success", "metrics") if step.terminated else ("reward_terms",)
    if missing := [key for key in expected if key not in info]:
        return f"info has no {missing[0]!r}; it has {sorted(info)}"
    if info.get("success") not in (None, True, False):
        return f"success is {info['success']!r}, not True, False or None"
    for key in ("reward_terms", "metrics"):
        if not _are_numbers(info.get(key, {})):
            return f"{key} is {info[key]!r}, not a mapping of finite numbers"
    return None


def _are_numbers(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    items = cast("Mapping[object, object]", value).items()
    return all(isinstance(name, str) and is_number(number) for name, number in items)


def expert(subject: Subject) -> None:
    """The scripted expert solves every task and earns the maximum of the declared range."""
    high = subject.env.reward_range[1]
    for episode in subject.require_expert():
        if not episode.ended:
            raise Fault(f"{episode.name}: it stopped before the end, after {len(episode.steps)} actions")
        if episode.total < high - SLACK:
            raise Fault(f"{episode.name}: it earned {episode.total}; the maximum is {high}")
        if plain_info(episode.steps[-1].info).get("success") is False:
            raise Fault(f"{episode.name}: it earned the maximum, and success is False")


def stop_strings(subject: Subject) -> None:
    """The expert's actions, cut behind the first stop string as a generator cuts them, earn the same."""
    if not subject.env.stop_strings:
        raise NotApplicable("the env declares no stop strings")
    for episode, sample in zip(subject.require_expert(), subject.samples, strict=True):
        cut = [cut_behind_stop(step.action, subject.env.stop_strings) for step in episode.steps]
        again = subject.play(says(*cut), "the expert's actions, cut behind stop strings,", sample)
        if again.total < episode.total - SLACK:
            raise Fault(f"{again.name}: they earned {again.total}, uncut {episode.total}")


def cut_behind_stop(action: str, stops: Iterable[str]) -> str:
    """The action up to the end of the stop string that ends first.

    >>> cut_behind_stop("<a>1</a> and <a>2</a>", ["</a>"])
    '<a>1</a>'
    """
    ends_at = [action.find(stop) + len(stop) for stop in stops if stop in action]
    return action[: min(ends_at)] if ends_at else action


def garbage(subject: Subject) -> None:
    """Empty actions and garbage earn the minimum of the declared range, and no success."""
    low = subject.env.reward_range[0]
    for episode in chain(subject.empty, subject.garbage):
        if not episode.crash and episode.total > low + SLACK:
            raise Fault(f"{episode.name}: they earned {episode.total}; the minimum is {low}")
        if episode.steps and plain_info(episode.steps[-1].info).get("success") is True:
            raise Fault(f"{episode.name}: success is True")


def right_first(subject: Subject) -> None:
    """No strategy of the stock list earns more than solving the task at the first try."""
    subject.require_expert()
    if not subject.stock:
        raise NotApplicable("the expert earned nothing")
    for stocked in subject.stock:
        for other in stocked.others:
            if other.total > stocked.expert.total + SLACK:
                raise Fault(f"{other.name}: it earned {other.total:g}, the expert {stocked.expert.total:g}")


def _played(subject: Subject) -> Iterator[Episode]:
    yield from subject.empty
    yield from subject.garbage
    yield from subject.malformed
    yield from subject.expert
    for stocked in subject.stock:
        yield from stocked.others
