"""The check that plays the same episodes in another process."""

from dataclasses import dataclass
from itertools import zip_longest

from envgym.checking.repeated import first_difference, transcript
from envgym.checking.report import Fault
from envgym.checking.source import Source
from envgym.checking.subject import START_S, CallEnded, CallStarted, Subject
from envgym.checking.watched_process import ProcessDied, Send, WatchedProcess

HERE = {"PYTHONHASHSEED": "1"}
"""The hash order of the process that runs the checks."""
ELSEWHERE = {"PYTHONHASHSEED": "2", "TZ": "ELSEWHERE-13:37"}
"""Another hash order, and a time zone of which it is another day for half of the time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """An episode came to its end."""

    name: str
    transcript: list[str]


def processes(subject: Subject) -> None:
    """Another process, with another hash order and time zone, plays the same episodes."""
    here = [Played(name=episode.name, transcript=transcript(episode)) for episode in subject.compared()]
    there = _play_elsewhere(subject)
    for one, other in zip_longest(here, there):
        if one is None or other is None:
            raise Fault(f"{len(here)} episodes here, {len(there)} in another process")
        if difference := first_difference(one.transcript, other.transcript):
            raise Fault(f"{one.name}, in another process: {difference}")


def _play_elsewhere(subject: Subject) -> list[Played]:
    """Play in another process, and pass on which call it is in to whoever watches this one."""
    played: list[Played] = []
    with subject.watched("starting another process", START_S):
        process = WatchedProcess(send_episodes, subject.source, environment=ELSEWHERE, own_group=False)
    with process:
        try:
            while True:
                event = process.receive(timeout_s=None)
                if isinstance(event, Played):
                    played.append(event)
                elif isinstance(event, CallStarted | CallEnded):
                    subject.report(event)
        except EOFError:
            return played
        except ProcessDied as error:
            raise Fault(str(error)) from error


def send_episodes(send: Send, source: Source) -> None:
    """Play the episodes that are compared, and send them."""
    subject = Subject(source, send)
    for episode in subject.compared():
        send(Played(name=episode.name, transcript=transcript(episode)))
