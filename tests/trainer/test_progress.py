import io

from rich.console import Console

from envgym_trainer.progress import Progress


def plain():
    stream = io.StringIO()
    return stream, Progress(Console(file=stream, force_terminal=False, width=200))


def test_without_a_terminal_every_step_is_a_plain_line_with_the_time_left():
    stream, progress = plain()
    with progress.track("training", 2, every_step=True) as advance:
        advance("step 1/2  reward [0.5]")
        advance("step 2/2  reward [0.6]")
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("step 1/2  reward [0.5]  ") and lines[1].endswith("0:00 left")
    assert "\x1b" not in stream.getvalue()


def test_fast_steps_are_summed_up_in_few_lines():
    stream, progress = plain()
    with progress.track("copying", 500) as advance:
        for _ in range(500):
            advance("loss 0.1")
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("copying 500/500  loss 0.1") and "steps/s" in line


def test_in_a_terminal_there_is_a_bar_and_the_lines_stay():
    stream = io.StringIO()
    progress = Progress(Console(file=stream, force_terminal=True, width=120))
    with progress.track("training", 2, every_step=True) as advance:
        advance("step 1/2  reward 0.5")
        advance("step 2/2  reward 0.6")
    assert "step 1/2  reward 0.5" in stream.getvalue() and "step 2/2  reward 0.6" in stream.getvalue()
