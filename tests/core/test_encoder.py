"""The encoder: the real embedded weights, checked against sentence-transformers, and its refusals."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from core.bench import Bench
from core.encoder import EMBEDDED, Encoder, check_encoder, find_device, find_folder, pool
from core.errors import BadInput
from core.events import Progress
from core.steps.projector import Projector

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


def bench_of(texts: list[str], cache: Path, encoder: str = EMBEDDED) -> Bench:
    """Lay out a bench."""
    return Bench(texts, 0, encoder, "cpu", 256, cache, Projector())


def test_vectors_equal_those_of_sentence_transformers(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    ours, told = encoded(bench_of(TEXTS, tmp_path))
    theirs = SentenceTransformer(str(find_folder(EMBEDDED)), device="cpu").encode(TEXTS, normalize_embeddings=True)
    cosine = (ours / np.linalg.norm(ours, axis=1, keepdims=True) * theirs).sum(1)
    assert cosine.min() > 0.9999
    assert told[-1].done == told[-1].total == len(set(TEXTS)), "equal texts are encoded once"


def test_a_second_time_nothing_is_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = encoded(bench_of(TEXTS, tmp_path))
    monkeypatch.setattr(Encoder, "vectors", lambda *_: pytest.fail("encoded again"))
    second, _ = encoded(bench_of(TEXTS, tmp_path))
    np.testing.assert_array_equal(first, second)


def test_pooling_by_hand() -> None:
    states = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]]])
    mask = torch.tensor([[1, 1, 0]])
    assert pool(states, mask, "mean").tolist() == [[2.0, 3.0]]
    assert pool(states, mask, "first").tolist() == [[1.0, 2.0]]
    assert pool(states, torch.zeros(1, 3), "mean").tolist() == [[0.0, 0.0]]


def test_damaged_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "model"
    shutil.copytree(find_folder(EMBEDDED), folder)
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\x00\x01\x02\x03")
    monkeypatch.setattr("core.encoder.find_folder", lambda name: folder)
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
