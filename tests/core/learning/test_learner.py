"""The learner: pieces give the whole batch's gradient, resume is exact, memory and divergence are survived."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from core.encoder.trunk import Trunk
from core.errors import Diverged
from core.learning.learner import Learner, Source, batch_rows
from core.learning.networks import ScclHeads
from tests.core.learning.tiny import tiny_model, tiny_tokens


class Heads(ScclHeads):
    """SCCL's heads, small, the same each time."""

    def __init__(self) -> None:
        """Start with three centres."""
        centres = np.random.default_rng(0).normal(size=(3, 16))
        super().__init__(centres, weight=10.0, temperature=0.5, alpha=1.0, cluster_loss="original", seed=1)

    def loss(self, vectors: Tensor) -> dict[str, Tensor]:
        """Both terms over three views."""
        return self.joint(*vectors.chunk(3))


def learner(dropout: bool = True, depth: int = 3, **options: object) -> Learner:
    model = tiny_model("bert")
    if not dropout:
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
    settings = {"pooling": "mean", "rate": 1e-3, "head_rate": 1e-2, "seed": 5} | options
    return Learner(Trunk(model, depth), Heads(), tiny_tokens(30), **settings)  # type: ignore[arg-type]


def take(target: Learner, steps: int) -> None:
    for _ in range(steps):
        rows = batch_rows(10, 4, target.seed, target.steps)
        target.step(np.concatenate([rows, rows + 10, rows + 20]), target.heads.loss)  # type: ignore[operator]


def weights(target: Learner) -> dict[str, np.ndarray]:
    return dict(target.checkpoint("x").arrays)


def assert_same(left: Learner, right: Learner, tolerance: float = 0.0) -> None:
    ours, theirs = weights(left), weights(right)
    assert set(ours) == set(theirs)
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], atol=tolerance, rtol=0, err_msg=name)


def test_pieces_give_the_step_of_the_whole_batch() -> None:
    whole, cut = learner(dropout=False), learner(dropout=False, piece_tokens=12)
    take(whole, 3)
    take(cut, 3)
    assert_same(whole, cut, 2e-4)
    assert whole.told() == pytest.approx(cut.told(), abs=1e-4)


def test_pieces_drop_out_the_same_units_in_both_passes() -> None:
    """With one learning rate for nothing, the vectors of the first pass equal those of the second."""
    target = learner(piece_tokens=12)
    seen: list[Tensor] = []
    forward = target._forward
    target._forward = lambda rows: seen.append(forward(rows)) or seen[-1]  # type: ignore[method-assign,func-returns-value]
    take(target, 1)
    half = len(seen) // 2
    assert half > 1
    for first, second in zip(seen[:half], seen[half:], strict=True):
        torch.testing.assert_close(first, second.detach(), atol=0, rtol=0)


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_resumed_training_equals_an_uninterrupted_one(depth: int) -> None:
    straight, stopped, resumed = (learner(depth=depth) for _ in range(3))
    take(straight, 6)
    take(stopped, 3)
    resumed.restore(stopped.checkpoint("train"))
    take(resumed, 3)
    assert_same(straight, resumed)


def test_training_learns_and_is_deterministic() -> None:
    first, second = learner(), learner()
    take(first, 1)
    start = first.told()["loss"]
    take(first, 40)
    take(second, 41)
    assert_same(first, second)
    assert first.told()["loss"] < start


def test_out_of_memory_halves_the_pieces_and_repeats_the_step() -> None:
    plain, short = learner(dropout=False), learner(dropout=False)
    forward = short._forward

    def scarce(rows: np.ndarray) -> Tensor:
        if len(rows) > 6:
            raise torch.OutOfMemoryError("DefaultCPUAllocator: can't allocate memory")
        return forward(rows)

    short._forward = scarce  # type: ignore[method-assign]
    short._least_piece = 8
    rows = np.arange(12)
    assert plain.step(rows, plain.heads.loss) is True  # type: ignore[operator,arg-type]
    assert short.step(rows, short.heads.loss) is False  # type: ignore[operator,arg-type]
    assert short.step(rows, short.heads.loss) is True, "noted once, remembered"  # type: ignore[operator,arg-type]
    plain.step(rows, plain.heads.loss)  # type: ignore[operator,arg-type]
    assert_same(plain, short, 2e-4)


def test_an_error_that_is_not_about_memory_is_not_hidden() -> None:
    def faulty(vectors: Tensor) -> dict[str, Tensor]:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        learner().step(np.arange(12), faulty)


def test_a_loss_that_is_no_number_is_told_and_the_last_checkpoint_is_good() -> None:
    target = learner()
    take(target, 2)
    good = target.checkpoint("train")
    target.told()
    target.step(np.arange(12), lambda vectors: {"loss": (vectors.sum() * torch.inf)})
    with pytest.raises(Diverged):
        target.told()
    target.restore(good)
    take(target, 1)
    assert np.isfinite(target.told()["loss"])
    assert all(np.isfinite(array).all() for array in weights(target).values())


def test_shared_weights_are_kept_once() -> None:
    target = learner()
    storages = [value.data_ptr() for value in target._named.values()]
    assert len(storages) == len(set(storages))


def test_a_step_under_autocast_stays_near_the_exact_one_and_keeps_float32_weights() -> None:
    """The path a GPU takes, taken by a CPU."""
    exact, mixed = learner(dropout=False), learner(dropout=False, precision="bfloat16")
    take(exact, 1)
    take(mixed, 1)
    assert mixed.told()["loss"] == pytest.approx(exact.told()["loss"], rel=0.02)
    assert all(array.dtype == np.float32 for array in weights(mixed).values())


def test_vectors_come_back_in_the_order_asked_for_and_nothing_is_dropped_out() -> None:
    target = learner(piece_tokens=12)
    rows = np.array([7, 2, 29, 11, 2])
    found = np.empty((5, 16), np.float32)
    for places, vectors in target.vectors(rows):
        found[places] = vectors
    np.testing.assert_array_equal(found[1], found[4])
    alone = np.stack([next(iter(target.vectors(np.array([row]))))[1][0] for row in rows])
    np.testing.assert_allclose(found, alone, atol=1e-5)


def test_every_epoch_takes_every_text_once_in_an_order_of_its_own() -> None:
    epochs = [np.concatenate([batch_rows(12, 4, 3, step) for step in range(3 * e, 3 * e + 3)]) for e in range(2)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(12))
    assert (epochs[0] != epochs[1]).any()
    assert len(batch_rows(5, 400, 0, 9)) == 5


def test_a_term_that_is_there_in_some_steps_is_averaged_over_those() -> None:
    target = learner()
    target.step(np.arange(12), lambda vectors: {"loss": vectors.sum() * 0 + 2, "only": torch.tensor(4.0)})
    target.step(np.arange(12), lambda vectors: {"loss": vectors.sum() * 0 + 4})
    assert target.told() == {"loss": 3.0, "only": 4.0}


def test_encoding_with_what_was_learnt_survives_short_memory() -> None:
    target = learner()
    rows = np.arange(20)
    roomy = target.sampled(rows)
    forward = target._forward

    def scarce(some: np.ndarray, source: Source | None = None) -> Tensor:
        if len(some) > 3:
            raise MemoryError
        return forward(some, source)

    target._forward = scarce  # type: ignore[method-assign]
    np.testing.assert_allclose(target.sampled(rows), roomy, atol=1e-5)


def test_the_check_for_a_gpu_runs_wherever_it_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.benchmarks.gpu_check import check

    check("cpu", "bfloat16")
    assert "lowest cosine" in (told := capsys.readouterr().out) and "depth 2: loss" in told
