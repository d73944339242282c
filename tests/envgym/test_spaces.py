from envgym import Message, MessagesSpace, TextSpace


def test_text_space_holds_tags_and_any_other_text_up_to_its_length():
    space = TextSpace(max_length=20)
    assert "<answer>é\n</answer>" in space
    assert "" in space
    assert "x" * 21 not in space
    assert 3 not in space


def test_messages_space_holds_tuples_of_messages_only():
    message = Message(role="user", content="hello")
    space = MessagesSpace()
    assert (message,) in space
    assert () in space
    assert [message] not in space
    assert ("hello",) not in space


def test_samples_lie_in_their_space_and_follow_the_seed():
    for space in (TextSpace(seed=3), TextSpace(max_length=0, seed=3), MessagesSpace(seed=3)):
        first = [space.sample() for _ in range(5)]
        assert all(sample in space for sample in first)
        space.seed(3)
        assert [space.sample() for _ in range(5)] == first


def test_spaces_of_equal_bounds_are_equal():
    assert TextSpace(max_length=5) == TextSpace(max_length=5) != TextSpace(max_length=6)
    assert MessagesSpace() == MessagesSpace()
    assert repr(TextSpace(max_length=5)) == "TextSpace(max_length=5)"
