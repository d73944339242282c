"""Reading the answer that a response gives between its tags."""

from envgym.tags import check_tag_name, last_tag


def find_answer(response: str, tag: str) -> str | None:
    """The stripped content of the last complete ``<tag>…</tag>``; None where there is none or it is blank.

    Raises:
        SetupError: if ``tag`` is not a tag name.

    >>> find_answer("<answer> 5 </answer>", "answer")
    '5'
    """
    found = last_tag(response, check_tag_name(tag))
    return (found.content.strip() or None) if found else None
