"""What the pool and its processes say to each other, one packet a request and one a reply.

A request holds the processor time that the comparison may take, and pairs of gold and answer, of which any may be
equal. A gold whose answer is None is only read. The reply is a judgement.
"""

import json
from typing import Literal, TypeAlias, cast, get_args

Judgement = Literal["same", "different", "bad_gold", "unparseable", "error"]
"""``same`` also means that a gold without an answer can be read; ``error`` that comparing raised an exception."""

Readings: TypeAlias = list[tuple[str, str | None]]

MAX_PACKET = 1 << 17
"""Bytes. Answers are cut far below this before they are sent."""


def request_packet(readings: Readings, processor_s: float) -> bytes:
    """Write a request."""
    return json.dumps([processor_s, readings]).encode()


def read_request(packet: bytes) -> tuple[Readings, float]:
    """Read a request back."""
    processor_s, readings = json.loads(packet)
    return [(gold, answer) for gold, answer in readings], processor_s


def read_reply(packet: bytes) -> Judgement:
    """Read a reply.

    Raises:
        ValueError: if it is no judgement.
    """
    judgement = packet.decode()
    if judgement not in get_args(Judgement):
        raise ValueError(f"the grading process replied {judgement!r}")
    return cast("Judgement", judgement)
