"""A short training on CUDA or MPS, for people who have one: ``make gpu-check`` prints what it saw."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from core.encoder.encoder import EMBEDDED, TOKENS_PER_BATCH, Encoder, default_precision, find_device
from core.encoder.tokens import Tokens
from core.encoder.trunk import Trunk
from core.learning.learner import Learner, batch_rows
from core.learning.networks import ScclHeads
from core.learning.prefix import keep_prefix
from tests.benchmarks.steps import sccl_heads
from tests.benchmarks.timing import drained, timed

TEXTS = [f"{verb} the {noun} number {i}" for i in range(40) for verb in ("send", "lose") for noun in ("parcel", "card")]


def main() -> None:
    """Find the device."""
    device = find_device()
    if device == "cpu":
        sys.exit("There is neither CUDA nor MPS here: nothing to check.")
    check(device, default_precision(device))


def check(device: str, precision: str) -> None:
    """Encode, train all layers and the top two, compare with the CPU."""
    print(f"torch {torch.__version__}, {device}, {precision}")
    exact, there = (Encoder(EMBEDDED, *how) for how in (("cpu", 256, "float32"), (device, 256, precision)))
    tokens = exact.tokens(TEXTS)[0]
    ours, theirs = (_vectors(encoder, tokens) for encoder in (there, exact))
    cosine = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    print(f"encode: lowest cosine to the CPU in float32 {cosine.min():.5f}")
    views = Tokens.joined([tokens] * 3)
    for depth in (6, 2):
        trunk = Trunk(there.trainable_model(), depth).to(device)
        with tempfile.TemporaryDirectory() as folder:
            budget, path = TOKENS_PER_BATCH[device], Path(folder) / "prefix"
            source = views if depth == 6 else drained(keep_prefix(trunk, views, budget, path, device, precision, ""))
            heads = sccl_heads(trunk.shape.width)
            settings = {"pooling": "mean", "rate": 1e-5, "head_rate": 1e-3, "seed": 0}
            learner = Learner(trunk, heads, source, device=device, precision=precision, **settings)  # type: ignore
            _steps(learner, heads, 1)
            first = learner.told()["loss"]
            _, seconds = timed(lambda learner=learner, heads=heads: _steps(learner, heads, 20))
            print(f"depth {depth}: loss {first:.3f} to {learner.told()['loss']:.3f} in 20 steps, {seconds:.2f} s")
            learner.restore(learner.checkpoint("train"))
    if device == "cuda":
        print(f"highest memory {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB on {torch.cuda.get_device_name()}")


def _vectors(encoder: Encoder, tokens: Tokens) -> np.ndarray:
    found = np.empty((len(tokens), encoder.shape.width), np.float32)
    for rows, vectors in encoder.vectors(tokens, "mean"):
        found[rows] = vectors
    return found


def _steps(learner: Learner, heads: ScclHeads, count: int) -> None:
    rows = len(TEXTS)
    for _ in range(count):
        chosen = batch_rows(rows, 32, 0, learner.steps)
        learner.step(
            np.concatenate([chosen, chosen + rows, chosen + 2 * rows]), lambda vectors: heads.joint(*vectors.chunk(3))
        )


if __name__ == "__main__":
    main()
