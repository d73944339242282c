import os
import signal

import pytest

from envgym_trainer.interruption import Interruption


def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_is_noted_where_it_would_break_a_step():
    with Interruption() as interruption:
        press_ctrl_c()
        assert interruption.requested and not interruption.insisted


def test_ctrl_c_is_raised_where_nothing_is_lost():
    with Interruption() as interruption, pytest.raises(KeyboardInterrupt), interruption.raised_here():
        press_ctrl_c()


def test_a_noted_ctrl_c_is_raised_at_the_next_such_place():
    with Interruption() as interruption:
        press_ctrl_c()
        with pytest.raises(KeyboardInterrupt), interruption.raised_here():
            pytest.fail("entered")


def test_a_second_ctrl_c_is_raised_at_once():
    with Interruption() as interruption:
        press_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
        assert interruption.insisted


def test_afterwards_ctrl_c_is_what_it_was():
    before = signal.getsignal(signal.SIGINT)
    with Interruption():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
