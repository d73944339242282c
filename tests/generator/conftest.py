import sys
from pathlib import Path

import pytest

IMPORTABLE = Path(__file__).parent / "importable"
sys.path.insert(0, str(IMPORTABLE))  # worker processes get the same path


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory) -> Path:
    from toy_models import save_model_folder

    return save_model_folder(tmp_path_factory.mktemp("model"))
