"""How close the engine comes to what the machine can do: ``make bench-engine``.

Every row compares two ways of doing the same thing in this one process, one after the other, on the same threads.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from core.bench import Bench
from core.encoder.source import EMBEDDED, find_folder
from core.maps.projector import Projector
from core.tables import read_table
from tests.benchmarks.steps import compare_steps, measure_memory
from tests.benchmarks.timing import drained, matmul_peak, timed

TOKEN_LIMIT = 256
WEIGHTS_PER_TOKEN = 6 * (4 * 384 * 384 + 2 * 384 * 1536)  # multiplications per token in the layers' linear maps


def main() -> None:
    """Print the rows."""
    folder = os.environ.get("TOPICSCOPE_DATA")
    if not folder:
        sys.exit("Set TOPICSCOPE_DATA to the folder of benchmark data.")
    threads = os.cpu_count() or 1
    torch.set_num_threads(threads)
    peak = matmul_peak()
    print(f"torch {torch.__version__}, {threads} threads, matmul peak {peak / 1e9:.0f} GFLOP/s, float32")
    asked = set(sys.argv[1:]) or {"steps", "memory", "stackoverflow", "bbc_news"}
    titles = column(Path(folder) / "stackoverflow.csv", "text")
    if "steps" in asked:
        pairs = Path(folder) / "stackoverflow_contextual20.csv"
        compare_steps([column(pairs, name) for name in ("text", "text1", "text2")])
    if "memory" in asked:
        measure_memory(titles)
    if "stackoverflow" in asked:
        compare_encoding("stackoverflow", titles, peak)
    if "bbc_news" in asked:
        compare_encoding("bbc_news", column(Path(folder) / "bbc_news.csv", "text"), peak)


def column(path: Path, name: str) -> list[str]:
    """Read one column of a table."""
    return read_table(path.read_bytes(), path.name).frame[name].to_list()


def compare_encoding(name: str, texts: list[str], peak: float) -> None:
    """Compare with sentence-transformers at its defaults: same weights, threads and token limit."""
    from sentence_transformers import SentenceTransformer

    theirs_model = SentenceTransformer(str(find_folder(EMBEDDED)), device="cpu")
    theirs_model.max_seq_length = TOKEN_LIMIT
    theirs_model.encode(texts[:64])
    with tempfile.TemporaryDirectory() as cache:
        bench = Bench(texts, 0, EMBEDDED, "cpu", TOKEN_LIMIT, "float32", Path(cache), Projector())
        drained(Bench(texts[:64], 0, EMBEDDED, "cpu", TOKEN_LIMIT, "float32", Path(cache), Projector()).encode("mean"))
        ours, first = timed(lambda: drained(bench.encode("mean")))
        _, again = timed(lambda: drained(bench.encode("mean")))
    theirs, other = timed(lambda: theirs_model.encode(texts, convert_to_numpy=True))
    lengths = [len(ids) for ids in theirs_model.tokenizer(texts, truncation=True, max_length=TOKEN_LIMIT)["input_ids"]]
    share = 2 * WEIGHTS_PER_TOKEN * sum(lengths) / first / peak
    cosine = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    print(f"{name}: {len(texts):,} texts, {sum(lengths):,} tokens")
    print(f"  encode: ours {first:.1f} s, sentence-transformers {other:.1f} s, ratio {other / first:.2f}")
    print(f"  lowest cosine {cosine.min():.6f}, share of matmul peak {share:.2f}")
    print(f"  encode again: {again:.2f} s, ratio {first / again:.0f}")


if __name__ == "__main__":
    main()
