"""Envs by name, ours and a third party's, whose package is written here and found on the path."""

import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

import envgym
from envgym import SetupError, TextEnv, check_arguments, env_names, load_env_class, make_env
from envgym.registration import env_target

MODULE = """
from envgym import Message, Reply, Task, TextEnv

class Echo(TextEnv):
    isolation = "inline"

    def __init__(self, *, word: str = "ada", max_turns: int = 1):
        super().__init__(max_turns=max_turns)
        self.word = word

    def tasks(self, split):
        return [Task(id=split, data={}, answer={})]

    def open(self, task):
        return (Message(role="user", content=f"Say {self.word}."),)

    def respond(self, action):
        return Reply(reward=float(action == self.word), done=True, success=action == self.word)
"""


def install(folder: Path, module: str = MODULE, name: str = "echo", package: str = "thirdparty") -> Path:
    """Write a distribution that registers an env, as pip would lay it down."""
    info = folder / f"{package}-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(f"[envgym.envs]\n{name} = {package}_module:Echo\n")
    (folder / f"{package}_module.py").write_text(module)
    return folder


def run(program: str, *folders: Path) -> str:
    path = os.pathsep.join(map(str, folders))
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def test_the_envs_of_the_package_are_registered_under_sorted_names():
    assert {"gsm8k", "qa", "search", "txt2sql"} <= set(env_names())
    assert list(env_names()) == sorted(env_names())
    assert env_target("search") == "envgym.envs.search:SearchEnv"


def test_a_third_party_env_is_listed_without_being_imported(tmp_path: Path):
    install(tmp_path, module="raise SystemExit('imported')")
    program = (
        "import sys, gymnasium, envgym\n"
        "print('echo' in envgym.env_names(), 'envgym/echo-v0' in gymnasium.registry)\n"
        "print('thirdparty_module' in sys.modules)"
    )
    assert run(program, tmp_path).split() == ["True", "True", "False"]


def test_a_third_party_env_plays_in_any_process_and_in_gymnasium(tmp_path: Path):
    install(tmp_path)
    program = (
        "import gymnasium, envgym\n"
        "for env in (envgym.make_env('echo', word='yes'), gymnasium.make('envgym/echo-v0', word='yes')):\n"
        "    env.reset(seed=1)\n"
        "    print(env.step('yes')[1:3])\n"
    )
    assert run(program, tmp_path).splitlines() == ["(1.0, True)"] * 2


def test_one_name_of_two_packages_is_refused_with_both(tmp_path: Path):
    first = install(tmp_path / "a", package="first")
    second = install(tmp_path / "b", package="second")
    program = (
        "import envgym\n"
        "try:\n    envgym.make_env('echo')\n"
        "except envgym.SetupError as error:\n    print(envgym.env_names(), error)"
    )
    said = run(program, first, second)
    assert "registered more than once: first_module:Echo, second_module:Echo" in said
    assert said.count("'echo'") == 2  # listed once, and named in the message


def test_an_unknown_name_is_refused_with_the_names_there_are():
    with pytest.raises(SetupError, match=r"unknown env 'serach'; the registered envs are: .*search.*txt2sql"):
        make_env("serach")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no.such.module:Env", "cannot be imported: No module named 'no'"),
        ("envgym.envs.search:NoEnv", "cannot be imported: "),
        ("envgym.envs.search:PROMPT", "which is not a subclass of envgym.TextEnv"),
        ("envgym.messages:Task", "which is not a subclass of envgym.TextEnv"),
    ],
)
def test_a_path_that_leads_to_no_env_is_refused(name: str, reason: str):
    with pytest.raises(SetupError, match=reason):
        load_env_class(name)


def test_an_env_is_made_from_the_path_of_its_class():
    assert type(make_env("envgym.envs.search:SearchEnv")) is load_env_class("search")


def test_an_unknown_argument_is_refused_with_those_there_are():
    with pytest.raises(SetupError, match=r"SearchEnv takes no argument 'top_k'; it takes: corpus, .*topk"):
        make_env("search", top_k=3)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"max_turns": "many"}, "SearchEnv: max_turns is 'many'; it must be int"),
        ({"max_turns": 2.5}, "max_turns is 2.5; it must be int"),
        ({"corpus": 5}, "corpus is 5; it must be str or null"),
        ({"split": "test"}, "split is 'test'; it must be 'train' or 'eval'"),
        ({"rewards": "f1"}, "rewards is 'f1'; it must be list of mapping"),
        ({"topk": True}, "topk is True; it must be int or null"),
        ({"format_weight": "0.1"}, "format_weight is '0.1'; it must be float"),
    ],
)
def test_a_value_of_another_type_is_refused_with_the_type(arguments: dict[str, object], reason: str):
    with pytest.raises(SetupError) as caught:
        make_env("search", **arguments)
    assert reason in str(caught.value)


def test_types_that_cannot_be_resolved_are_not_checked():
    class Later(TextEnv):
        def __init__(self, *, max_turns: "Unknown" = 1) -> None:  # noqa: F821  # pyright: ignore
            super().__init__(max_turns=1)

    check_arguments(Later, {"max_turns": "anything"})


def test_gymnasium_makes_every_registered_env_by_id():
    for name in env_names():
        assert f"envgym/{name}-v0" in gymnasium.registry


def test_public_names_are_there():
    for name in envgym.__all__:
        assert hasattr(envgym, name)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = envgym.nothing  # pyright: ignore[reportAttributeAccessIssue]
