"""Training steps of SCCL's shape (three views, batch 256) against the straightforward loop."""

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from core.encoder.encoder import EMBEDDED, TOKENS_PER_BATCH, Encoder
from core.encoder.tokens import Tokens
from core.encoder.trunk import Trunk
from core.learning.learner import Learner, batch_rows
from core.learning.networks import ScclHeads
from core.learning.prefix import keep_prefix
from tests.benchmarks.timing import drained, timed

BATCH, CLUSTERS, STEPS = 256, 20, 3


def sccl_heads(width: int) -> ScclHeads:
    """Return SCCL's heads at the paper's settings, centres at random: only their cost matters here."""
    centres = np.random.default_rng(0).normal(size=(CLUSTERS, width))
    return ScclHeads(centres, weight=10.0, temperature=0.5, alpha=1.0, cluster_loss="original", seed=0)


def compare_steps(views: list[list[str]]) -> None:
    """Print texts per second of the straightforward loop, of all layers and of depth 2 on a kept prefix."""
    encoder = Encoder(EMBEDDED, "cpu", 256, "float32")
    rows = len(views[0])
    plain = _plain_seconds(encoder, views)
    print(f"SCCL-shaped step, {rows:,} texts, 3 views, batch {BATCH}, float32")
    print(f"  straightforward loop: {BATCH / plain:.1f} texts/s")
    tokens = Tokens.joined([encoder.tokens(view)[0] for view in views])
    whole = _our_seconds(Trunk(_fresh(encoder)), tokens, rows)
    print(f"  all layers: {BATCH / whole:.1f} texts/s, ratio {plain / whole:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        trunk = Trunk(_fresh(encoder), 2)
        budget = TOKENS_PER_BATCH["cpu"]
        prefix, once = timed(
            lambda: drained(keep_prefix(trunk, tokens, budget, Path(folder) / "p", "cpu", "float32", "frozen layers"))
        )
        top = _our_seconds(trunk, prefix, rows)
        print(f"  depth 2 on a kept prefix: {BATCH / top:.1f} texts/s, ratio {plain / top:.2f}")
        print(f"  the prefix itself: {once:.0f} s once, {prefix.states.nbytes / 1e6:.0f} MB")


def _fresh(encoder: Encoder) -> Any:
    encoder.__dict__.pop("model", None)
    return encoder.model


def _our_seconds(trunk: Trunk, source: Any, rows: int) -> float:
    heads = sccl_heads(trunk.shape.width)
    learner = Learner(trunk, heads, source, pooling="mean", rate=1e-5, head_rate=1e-3, seed=0)

    def step() -> None:
        chosen = batch_rows(rows, BATCH, 0, learner.steps)
        learner.step(
            np.concatenate([chosen, chosen + rows, chosen + 2 * rows]), lambda vectors: heads.joint(*vectors.chunk(3))
        )

    step()
    return min(timed(step)[1] for _ in range(STEPS))


def _plain_seconds(encoder: Encoder, views: list[list[str]]) -> float:
    """Time the loop of the released code: tokenise in every step, pad to 32, one forward per view."""
    model = _fresh(encoder).train()
    heads = sccl_heads(384)
    groups = [{"params": list(model.parameters()), "lr": 1e-5}, {"params": list(heads.parameters()), "lr": 1e-3}]
    optimiser = torch.optim.Adam(groups)
    options = {"padding": "max_length", "truncation": True, "max_length": 32, "return_tensors": "pt"}
    count = 0

    def step() -> None:
        nonlocal count
        chosen = batch_rows(len(views[0]), BATCH, 0, count)
        count += 1
        vectors = []
        for view in views:
            found = encoder.tokenizer([view[row] for row in chosen], **options)
            mask = found["attention_mask"].unsqueeze(-1).float()
            vectors.append((model(**found).last_hidden_state * mask).sum(1) / mask.sum(1))
        loss = heads.joint(*vectors)["loss"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        loss.item()

    step()
    return min(timed(step)[1] for _ in range(STEPS))


def measure_memory(texts: list[str], count: int = 100_000) -> None:
    """Print the highest anonymous memory of preparing and training many short texts at depth 2."""
    texts = [f"{texts[row % len(texts)]} {row // len(texts)}" for row in range(count)]
    encoder = Encoder(EMBEDDED, "cpu", 256, "float32")
    peak, over = 0, threading.Event()

    def look() -> None:
        nonlocal peak
        while not over.wait(0.2):
            status = Path("/proc/self/status").read_text()
            peak = max(peak, int(status.split("RssAnon:")[1].split()[0]) * 1024)

    watcher = threading.Thread(target=look)
    watcher.start()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        tokens = Tokens.joined([encoder.tokens(texts[start : start + 5_000])[0] for start in range(0, count, 5_000)])
        trunk = Trunk(_fresh(encoder), 2)
        path, budget = Path(folder) / "p", TOKENS_PER_BATCH["cpu"]
        prefix = drained(keep_prefix(trunk, tokens, budget, path, "cpu", "float32", "frozen layers"))
        _our_seconds(trunk, prefix, count // 3)
    over.set()
    watcher.join()
    size, spent = prefix.states.nbytes / 1e9, time.perf_counter() - began
    print(
        f"{count:,} short texts, depth 2: highest RssAnon {peak / 2**30:.2f} GiB, prefix {size:.1f} GB, {spent:.0f} s"
    )
    print(f"  (resident in all, mapped files with it, now {psutil.Process().memory_info().rss / 2**30:.2f} GiB)")
