"""The encoder: the real embedded weights, checked against sentence-transformers, and its refusals."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from transformers import BertConfig, BertModel

import core.encoder.encoder
from core.bench import Bench
from core.encoder.encoder import Encoder, check_precision, find_device
from core.encoder.source import EMBEDDED, check_encoder, find_folder
from core.encoder.tokens import Tokens
from core.errors import BadInput
from core.events import Note, Progress
from core.maps.projector import Projector
from core.runs.pipeline import prepare
from core.tables.corpus import Corpus
from tests.conftest import make_config

TEXTS = ["My parcel never came.", "a", "The quick brown fox " * 100, "Où est ma commande ?", "My parcel never came."]


def encoded(bench: Bench, pooling: str = "mean") -> tuple[np.ndarray, list[Progress]]:
    """Drain the generator."""
    work, told = bench.encode(pooling), []
    while True:
        try:
            event = next(work)
            told += [event] if isinstance(event, Progress) else []
        except StopIteration as end:
            return end.value, told


def bench_of(texts: list[str], cache: Path, encoder: str = EMBEDDED, precision: str = "float32") -> Bench:
    """Lay out a bench."""
    return Bench(texts, 0, encoder, "cpu", 256, precision, cache, Projector())


def test_vectors_equal_those_of_sentence_transformers(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    ours, told = encoded(bench_of(TEXTS, tmp_path))
    theirs = SentenceTransformer(str(find_folder(EMBEDDED)), device="cpu").encode(TEXTS, normalize_embeddings=True)
    cosine = (ours / np.linalg.norm(ours, axis=1, keepdims=True) * theirs).sum(1)
    assert cosine.min() > 0.9999
    assert told[-1].done == told[-1].total == len(TEXTS)


def test_a_second_time_nothing_is_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = encoded(bench_of(TEXTS, tmp_path))
    monkeypatch.setattr(Encoder, "forward", lambda *_: pytest.fail("encoded again"))
    second, _ = encoded(bench_of(TEXTS, tmp_path))
    np.testing.assert_array_equal(first, second)


def test_equal_texts_are_encoded_once_and_a_changed_row_alone_is_encoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    original = Encoder.forward

    def counted(self: Encoder, tokens: Tokens, pooling: str) -> np.ndarray:
        seen.append(len(tokens))
        return original(self, tokens, pooling)

    monkeypatch.setattr(Encoder, "forward", counted)
    first, _ = encoded(bench_of(TEXTS, tmp_path))
    assert sum(seen) == 4
    seen.clear()
    changed, _ = encoded(bench_of([*TEXTS[:3], "Something new.", TEXTS[4]], tmp_path))
    assert sum(seen) == 1
    np.testing.assert_array_equal(changed[[0, 1, 2, 4]], first[[0, 1, 2, 4]])


def test_a_run_that_is_stopped_keeps_what_it_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(core.encoder.encoder.TOKENS_PER_BATCH, "cpu", 16)
    work = bench_of(TEXTS, tmp_path).encode("mean")
    for event in work:
        if isinstance(event, Progress) and event.done:
            break
    work.close()
    seen: list[int] = []
    monkeypatch.setattr(Encoder, "forward", lambda self, ids, *_: seen.append(len(ids)) or np.zeros((len(ids), 384)))
    encoded(bench_of(TEXTS, tmp_path))
    assert sum(seen) == 3


def test_texts_beyond_the_limit_are_cut_and_counted(tmp_path: Path) -> None:
    notes = [event.text for event in bench_of(TEXTS, tmp_path).encode("mean") if isinstance(event, Note)]
    assert notes == ["1 texts are longer than 256 tokens; their ends are not read."]


def test_bfloat16_is_close_to_full_precision(tmp_path: Path) -> None:
    full, _ = encoded(bench_of(TEXTS, tmp_path))
    rough, _ = encoded(bench_of(TEXTS, tmp_path, precision="bfloat16"))
    cosine = (full * rough).sum(1) / np.linalg.norm(full, axis=1) / np.linalg.norm(rough, axis=1)
    assert 0.99 < cosine.min() < 1
    with pytest.raises(BadInput, match="must be one of"):
        check_precision("int3")


def test_a_text_has_the_same_vector_in_any_company(tmp_path: Path) -> None:
    texts = [f"{text} {i}" for i, text in enumerate(TEXTS * 8)]
    whole, _ = encoded(bench_of(texts, tmp_path / "whole"))
    some, _ = encoded(bench_of(texts[3:6], tmp_path / "some"))
    np.testing.assert_array_equal(whole[3:6], some)


def test_out_of_memory_halves_the_batch_and_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{text} {i}" for i, text in enumerate(TEXTS * 8)]
    roomy, _ = encoded(bench_of(texts, tmp_path / "roomy"))
    original = Encoder.forward

    def scarce(self: Encoder, tokens: Tokens, pooling: str) -> np.ndarray:
        if tokens.lengths.sum() > 300:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
        return original(self, tokens, pooling)

    monkeypatch.setattr(Encoder, "forward", scarce)
    core.encoder.encoder._loaded.cache_clear()
    work, notes = bench_of(texts, tmp_path / "scarce").encode("mean"), []
    while True:
        try:
            event = next(work)
            notes += [event.text] if isinstance(event, Note) and "Memory" in event.text else []
        except StopIteration as end:
            np.testing.assert_array_equal(end.value, roomy)
            break
    core.encoder.encoder._loaded.cache_clear()
    assert len(notes) == 1 and "tokens at a time" in notes[0]


def test_the_first_token_is_another_vector_than_the_mean(tmp_path: Path) -> None:
    mean, _ = encoded(bench_of(TEXTS, tmp_path))
    first, _ = encoded(bench_of(TEXTS, tmp_path), "first")
    assert mean.shape == first.shape and not np.allclose(mean, first)


def test_damaged_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "model"
    shutil.copytree(find_folder(EMBEDDED), folder)
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\x00\x01\x02\x03")
    monkeypatch.setattr("core.encoder.encoder.find_folder", lambda name, revision: folder)
    with pytest.raises(BadInput, match="damaged"):
        encoded(bench_of(TEXTS, tmp_path))


def test_any_folder_with_safetensors_serves(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    shutil.copytree(find_folder(EMBEDDED), folder, ignore=shutil.ignore_patterns("*.safetensors"))
    config = BertConfig(
        vocab_size=30522, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    BertModel(config).save_pretrained(folder)
    assert check_encoder(str(folder)) == str(folder)
    vectors, _ = encoded(bench_of(TEXTS, tmp_path, str(folder)), "first")
    assert vectors.shape == (5, 16)


def test_what_cannot_be_reached_is_refused_and_the_embedded_one_named(tmp_path: Path) -> None:
    assert check_encoder("sentence-transformers/all-MiniLM-L6-v2") == EMBEDDED
    for name in ("nobody/nothing", "../../no/such", "a b c", ""):
        with pytest.raises(BadInput, match=EMBEDDED) as refusal:
            check_encoder(name)
        assert "\n" not in str(refusal.value)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(BadInput, match="safetensors"):
        check_encoder(str(tmp_path))


def test_the_device_is_one_we_know() -> None:
    assert find_device() in ("cpu", "cuda", "mps")


class Hub:
    """Stands for the model hub: counts what it is asked for, and has one model."""

    revision = "0123456789abcdef0123456789abcdef01234567"

    def __init__(self, folder: Path) -> None:
        self.folder = folder / self.revision
        shutil.copytree(find_folder(EMBEDDED), self.folder)
        self.asked: list[tuple[str, tuple[str, ...], str | None]] = []

    def download(self, name: str, revision: str | None, allow_patterns: list[str], etag_timeout: float) -> str:
        self.asked.append((name, tuple(allow_patterns), revision))
        assert etag_timeout <= 10
        if name != "some/model":
            raise OSError("no such model")
        return str(self.folder)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """Return a hub that answers from a folder."""
    made = Hub(tmp_path)
    monkeypatch.setattr("huggingface_hub.snapshot_download", made.download)
    monkeypatch.setattr("core.encoder.source._answers", {})
    return made


def test_a_name_is_asked_for_at_the_hub_once_and_no_weights_before_the_start(hub: Hub, corpus: Corpus) -> None:
    for _ in range(3):
        assert check_encoder("some/model") == "some/model"
        config = make_config(corpus, "uft", encoder="some/model")
        with pytest.raises(BadInput, match="cannot be reached"):
            check_encoder("other/model")
    assert config.revisions == {"some/model": hub.revision}
    assert [name for name, _, _ in hub.asked] == ["some/model", "other/model"]
    assert not any("safetensors" in pattern for _, patterns, _ in hub.asked for pattern in patterns)


def test_weights_are_fetched_at_the_revision_that_was_recorded(hub: Hub, corpus: Corpus, tmp_path: Path) -> None:
    config = make_config(corpus, "embed", encoder="some/model")
    bench, _ = prepare(config, corpus, tmp_path / "cache", Projector())
    hub.asked.clear()
    assert bench.load().folder == hub.folder
    assert {revision for _, _, revision in hub.asked} == {hub.revision}
