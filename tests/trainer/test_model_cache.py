import sys

import pytest

from envgym_generator.types import SetupError
from envgym_trainer.model_cache import WarmStart, cache_root


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "a_recipe", raising=False)
    package = tmp_path / "a_recipe"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "cook.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ENVGYM_CACHE", str(tmp_path / "cache"))
    return package


def warm_start(**changes):
    return WarmStart(**({"name": "tiny", "recipe": "a_recipe.cook:prepare", "env": "search", "seed": 0} | changes))


def test_the_cache_is_where_the_environment_says(recipe, tmp_path):
    assert cache_root() == tmp_path / "cache"
    assert warm_start().folder.parent == tmp_path / "cache" / "models"


def test_the_folder_is_the_same_for_the_same_facts_and_another_for_others(recipe):
    assert warm_start().folder == warm_start().folder
    others = [warm_start(seed=1), warm_start(env="gsm8k"), warm_start(name="small")]
    assert len({warm_start().folder, *(other.folder for other in others)}) == 4


def test_an_edited_recipe_is_not_answered_from_the_cache(recipe):
    before = warm_start().folder
    (recipe / "cook.py").write_text("SALT = 2\n")
    assert warm_start().folder != before


def test_the_recipe_is_not_imported_to_look_into_the_cache(recipe):
    (recipe / "cook.py").write_text("raise RuntimeError('imported')\n")
    assert warm_start().folder
    assert "a_recipe.cook" not in sys.modules


@pytest.mark.parametrize("path", ["no_such_module:prepare", "a_recipe.missing:prepare"])
def test_a_recipe_that_is_not_there_is_named(recipe, path):
    with pytest.raises(SetupError, match=path):
        _ = warm_start(recipe=path).folder
