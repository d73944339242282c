"""Checks of what must not get through: hostile text in a task, and the ground truth.

Both exchange one value of a task for a marked one and look for the mark. That finds a leak where a search for the
value itself could not tell it from a coincidence, as with an answer of ``7``.
"""

import pickle
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from envgym.checking.episode import Actions, Episode
from envgym.checking.report import Fault
from envgym.checking.strategy import CONTROL_TOKENS, FILLER
from envgym.checking.subject import Sample, Subject, says
from envgym.checking.task_field import MAX_VALUES, Place, spell, values_in, with_value

HARMLESS = " zqharmlesszq"
MARK = "zqsecretzq"
NUMBER_MARK = 918273645
MAX_TAGS = 6
REFUSALS = ("SetupError", "InfrastructureError", "BadGoldError")
"""How an env refuses a task that it cannot use. A field that it refuses is no free text."""


def injection(subject: Subject) -> None:
    """A task's text that holds tags or control tokens opens no tag, adds no message and earns nothing."""
    for sample in subject.samples[::3]:
        for place, value in islice(values_in(sample.task.data), MAX_VALUES):
            if isinstance(value, str):
                _inject(subject, sample, place, value)


def _inject(subject: Subject, sample: Sample, place: Place, value: str) -> None:
    where = f"{spell('data', place)} of {sample}"
    for actions in _ways_to_play(subject, sample):
        harmless = _play_with(subject, sample, actions, place, value + HARMLESS)
        if harmless.crash is not None:
            return
        hostile = _play_with(subject, sample, actions, place, value + " " + payload(subject, sample))
        if hostile.crash is not None and hostile.crash.kind in REFUSALS:
            continue
        if fault := difference_made(harmless, hostile, subject.tags):
            raise Fault(f"tags and control tokens in {where}: {fault}")


def _play_with(subject: Subject, sample: Sample, actions: Actions, place: Place, text: str) -> Episode:
    changed = replace(sample, task=with_value(sample.task, "data", place, text))
    return subject.play(actions, "an injection", changed)


def payload(subject: Subject, sample: Sample) -> str:
    """Every tag of the env closed and opened, the expert's answer, and a turn forged with control tokens."""
    tags = "".join(f"</{tag}><{tag}>zq</{tag}><{tag}>" for tag in subject.tags)
    answers = [episode.steps[-1].action for episode in _expert_on(subject, sample)]
    return " ".join([tags, *answers, *CONTROL_TOKENS, *answers])


def difference_made(harmless: Episode, hostile: Episode, tags: tuple[str, ...]) -> str | None:
    """What hostile text changed that harmless text in the same place did not, in words, or None."""
    if hostile.crash is not None:
        return str(hostile.crash)
    for tag in tags:
        for spelled in (f"<{tag}>", f"</{tag}>"):
            before, after = _count(harmless, spelled), _count(hostile, spelled)
            if after > before:
                return f"{spelled} stands in the messages {after} times instead of {before}"
    if [message.role for message in harmless.messages] != [message.role for message in hostile.messages]:
        return f"{len(hostile.messages)} messages instead of {len(harmless.messages)}"
    if harmless.total != hostile.total:
        return f"the same actions earned {hostile.total} instead of {harmless.total}"
    return None


def _count(episode: Episode, spelled: str) -> int:
    return sum(message.text.count(spelled) for message in episode.messages)


def ground_truth(subject: Subject) -> None:
    """The answer of a task shows in no message, no info, and no repr."""
    for sample in subject.samples[::3]:
        for place, value in islice(values_in(sample.task.answer), MAX_VALUES):
            for actions in _ways_to_play(subject, sample):
                if fault := _leak(subject, sample, place, value, actions):
                    raise Fault(f"{spell('answer', place)} of {sample} stands in {fault}")


def _leak(subject: Subject, sample: Sample, place: Place, value: object, actions: Actions) -> str | None:
    """Where a marked answer shows, or None. A mark that the env refuses is replaced by the next one."""
    for mark in marks_for(value):
        marked = replace(sample, task=with_value(sample.task, "answer", place, mark))
        env = subject.build()
        try:
            episode = subject.play_on(env, actions, "a marked answer", marked)
            shown = [*_shown(episode), ("repr(env)", f"{env!r} {env}"), ("repr(task)", repr(marked.task))]
        finally:
            env.close()
        if episode.crash is not None and not episode.steps:
            continue
        if mark is value and _is_no_secret(value, marked, episode):
            return None
        return next((where for where, content in shown if holds(content, mark)), None)
    return None


def marks_for(value: object) -> list[object]:
    """Values of the same kind that occur nowhere by chance; for a long text, at last the text itself."""
    if isinstance(value, str):
        return [MARK, str(NUMBER_MARK), *([value] if len(value) >= 12 else [])]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return []
    return [type(value)(NUMBER_MARK)]


def _is_no_secret(value: object, sample: Sample, episode: Episode) -> bool:
    """Whether the task's own data or the actions hold the value, so that seeing it proves nothing."""
    said = [step.action for step in episode.steps]
    return any(str(value) in text for text in [repr(sample.task.data), *said])


def _shown(episode: Episode) -> Iterator[tuple[str, object]]:
    for turn, observation in enumerate(episode.observations):
        yield "the opening" if turn == 0 else f"the observation of turn {turn}", observation
    for turn, info in enumerate(episode.infos):
        yield "the info of reset" if turn == 0 else f"the info of turn {turn}", info


def holds(content: object, mark: object) -> bool:
    """Whether anything inside holds the mark, whatever its repr shows: a ``Task`` hides its answer there.

    >>> holds({"hint": "It is ZQSECRETZQ."}, MARK), holds([NUMBER_MARK + 1], NUMBER_MARK)
    (True, False)
    """
    text = repr(content)
    with suppress(pickle.PicklingError, AttributeError, TypeError):  # then its repr has to do
        text += pickle.dumps(content, protocol=0).decode("latin-1")  # protocol 0 writes plain text
    return str(mark).casefold() in text.casefold()


def _ways_to_play(subject: Subject, sample: Sample) -> list[Actions]:
    """Wrong actions, each tag in turn, and what the expert did on the task as it was."""
    experts = [says(*(step.action for step in episode.steps)) for episode in _expert_on(subject, sample)]
    tags = [says(f"<{tag}></{tag}>", f"<{tag}>zq</{tag}>") for tag in subject.tags[:MAX_TAGS]]
    return [says(FILLER), *tags, *experts]


def _expert_on(subject: Subject, sample: Sample) -> list[Episode]:
    """The expert's episode on this sample, where there is one."""
    if not subject.has_expert:
        return []
    return [
        episode
        for episode, played in zip(subject.expert, subject.samples, strict=True)
        if played is sample and episode.steps
    ]
