"""How many layers learn: the fixed rule, its reasons, its refusals."""

import pytest

from core.encoder.shape import Shape
from core.errors import BadInput
from core.learning.depth import DEPTHS, settle_depth

MINILM = Shape("bert", 6, 384, 1_536)
MODERN = Shape("modernbert", 22, 768, 1_152)


def test_auto_learns_everything_on_a_gpu_and_what_a_cpu_can_bear() -> None:
    assert settle_depth("auto", MINILM, "cuda", 1e9, 1e9)[0] == 6
    small, _ = settle_depth("auto", MINILM, "cpu", 1e4, 1e5)
    middle, reason = settle_depth("auto", MINILM, "cpu", 3e5, 1e6)
    large, _ = settle_depth("auto", MINILM, "cpu", 1e9, 1e9)
    assert small == 6 and large == 1 and 1 < middle < 6
    assert reason.startswith(f"The top {middle} of 6 layers learn")
    assert settle_depth("auto", MINILM, "cpu", 3e5, 1e6) == (middle, reason), "the same tomorrow"


def test_what_is_asked_for_is_done_or_refused_in_words() -> None:
    assert [settle_depth(asked, MINILM, "cpu", 1, 1)[0] for asked in ("0", "2", "6", "all")] == [0, 2, 6, 6]
    with pytest.raises(BadInput, match="has 6 layers"):
        settle_depth("8", MINILM, "cpu", 1, 1)
    with pytest.raises(BadInput, match="cannot be split"):
        settle_depth("2", MODERN, "cpu", 1, 1)
    depth, reason = settle_depth("auto", MODERN, "cpu", 1e9, 1e9)
    assert depth == 22 and reason == "All 22 layers learn: those of modernbert cannot be split."
    assert "auto" in DEPTHS and "all" in DEPTHS
