"""The losses against hand-computed cases, naive loops and their properties."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy, linear, normalize

from core.learning.losses import kl_rows, log_student_t, log_target, nt_xent, said_tokens

SEEDS = st.integers(0, 10_000)


def made(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_nt_xent_of_two_orthogonal_texts_by_hand() -> None:
    """Both views equal and the two texts at right angles: -log(e^2 / (e^2 + 2)) at temperature 1/2."""
    z = torch.eye(2)
    assert nt_xent(z, z, 0.5).item() == pytest.approx(-math.log(math.exp(2) / (math.exp(2) + 2)), abs=1e-6)


def naive_nt_xent(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    z, m = torch.cat([first, second]), len(first)
    terms = []
    for i in range(2 * m):
        partner = (i + m) % (2 * m)
        total = sum(torch.exp(z[i] @ z[k] / temperature) for k in range(2 * m) if k != i)
        terms.append(-torch.log(torch.exp(z[i] @ z[partner] / temperature) / total))
    return torch.stack(terms).mean()


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.integers(2, 6))
def test_nt_xent_equals_the_loop_and_so_does_its_gradient(seed: int, m: int) -> None:
    raw = made(seed, 2, m, 5).requires_grad_()
    ours = nt_xent(normalize(raw[0], dim=1), normalize(raw[1], dim=1), 0.5)
    (our_gradient,) = torch.autograd.grad(ours, raw)
    naive = naive_nt_xent(normalize(raw[0], dim=1), normalize(raw[1], dim=1), 0.5)
    (naive_gradient,) = torch.autograd.grad(naive, raw)
    torch.testing.assert_close(ours, naive, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(our_gradient, naive_gradient, atol=1e-5, rtol=1e-4)


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.integers(1, 8))
def test_nt_xent_is_symmetric_and_indifferent_to_order_and_never_negative(seed: int, m: int) -> None:
    a, b = normalize(made(seed, m, 4), dim=1), normalize(made(seed + 1, m, 4), dim=1)
    order = torch.randperm(m, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(nt_xent(a, b, 0.5), nt_xent(b, a, 0.5))
    torch.testing.assert_close(nt_xent(a, b, 0.5), nt_xent(a[order], b[order], 0.5))
    assert nt_xent(a, b, 0.5) >= 0
    same = a[:1].expand(m, -1)
    assert nt_xent(same, same, 0.5).item() == pytest.approx(math.log(2 * m - 1), abs=1e-5)


def test_nt_xent_survives_a_small_temperature_in_half_precision() -> None:
    """exp(1 / 0.05) is beyond float16; log space in float32 is not."""
    z = normalize(made(0, 6, 4), dim=1).half()
    assert torch.isfinite(nt_xent(z, z, 0.05))


def test_student_t_by_hand() -> None:
    """Distances 0 and 1 to two centres: 1/(1+0) against 1/(1+1)."""
    q = log_student_t(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 0.0], [1.0, 0.0]]), 1.0).exp()
    torch.testing.assert_close(q, torch.tensor([[2 / 3, 1 / 3]]))


def test_target_by_hand() -> None:
    """Row one: q^2/f = (.64/1.2, .04/.8) = (.5333, .05); row two: (.16/1.2, .36/.8) = (.1333, .45)."""
    q = torch.tensor([[0.8, 0.2], [0.4, 0.6]])
    expected = torch.tensor([[0.533333, 0.05], [0.133333, 0.45]])
    torch.testing.assert_close(
        log_target(q.log()).exp(), expected / expected.sum(1, keepdim=True), atol=1e-5, rtol=1e-5
    )


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(1, 7), st.integers(2, 5), st.floats(0.5, 20))
def test_assignments_are_probabilities_that_move_with_their_space(seed: int, m: int, k: int, alpha: float) -> None:
    e, mu = made(seed, m, 4), made(seed + 1, k, 4)
    log_q = log_student_t(e, mu, alpha)
    torch.testing.assert_close(log_q.exp().sum(1), torch.ones(m))
    torch.testing.assert_close(log_target(log_q).exp().sum(1), torch.ones(m))
    naive = (1 + (e[:, None] - mu[None]).square().sum(2) / alpha) ** (-(alpha + 1) / 2)
    torch.testing.assert_close(log_q.exp(), naive / naive.sum(1, keepdim=True), atol=1e-4, rtol=1e-3)
    turned, _ = torch.linalg.qr(made(seed + 2, 4, 4))
    moved = log_student_t(e @ turned + 3, mu @ turned + 3, alpha)
    torch.testing.assert_close(moved, log_q, atol=1e-3, rtol=1e-3)
    order = torch.randperm(k, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(log_student_t(e, mu[order], alpha), log_q[:, order])


def test_a_large_alpha_tends_to_a_gaussian() -> None:
    e, mu = made(0, 5, 3), made(1, 4, 3)
    squared = (e[:, None] - mu[None]).square().sum(2)
    torch.testing.assert_close(log_student_t(e, mu, 1e6), torch.log_softmax(-squared / 2, 1), atol=1e-3, rtol=1e-3)


def test_one_text_is_its_own_target_and_even_stays_even() -> None:
    log_q = log_student_t(made(0, 1, 3), made(1, 4, 3), 1.0)
    torch.testing.assert_close(log_target(log_q), log_q)
    even = torch.full((3, 4), math.log(0.25))
    torch.testing.assert_close(log_target(even), even)


def test_the_target_is_sharper_with_the_same_winner_where_clusters_are_even() -> None:
    q = torch.tensor([[0.6, 0.3, 0.1], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6]])
    p = log_target(q.log()).exp()
    assert (p.argmax(1) == q.argmax(1)).all() and (p.max(1).values > q.max(1).values).all()


@settings(max_examples=30, deadline=None)
@given(SEEDS)
def test_divergence_is_never_negative_and_its_gradient_is_cross_entropys(seed: int) -> None:
    e, mu = made(seed, 6, 3), made(seed + 1, 4, 3).requires_grad_()
    log_q = log_student_t(e, mu, 1.0)
    log_p = log_target(log_q)
    loss = kl_rows(log_p, log_q)
    assert loss >= -1e-7 and not log_p.requires_grad
    torch.testing.assert_close(kl_rows(log_q, log_q), torch.zeros(()))
    (ours,) = torch.autograd.grad(loss, mu, retain_graph=True)
    (cross,) = torch.autograd.grad(-(log_p.exp() * log_q).sum(1).mean(), mu)
    torch.testing.assert_close(ours, cross)


def test_gradients_agree_with_small_differences() -> None:
    e = made(3, 4, 3)
    mu = made(4, 3, 3).double().requires_grad_()
    log_p = log_target(log_student_t(e, mu.float(), 1.0))

    def loss(centres: Tensor) -> float:
        return float(kl_rows(log_p, log_student_t(e, centres, 1.0)))

    kl_rows(log_p, log_student_t(e, mu, 1.0)).backward()
    assert mu.grad is not None
    for place in np.ndindex(3, 3):
        step = torch.zeros(3, 3).double()
        step[place] = 1e-2
        slope = (loss(mu.detach() + step) - loss(mu.detach() - step)) / 2e-2
        assert slope == pytest.approx(mu.grad[place].item(), abs=2e-3)


def test_vectors_far_from_every_centre_give_no_infinity() -> None:
    log_q = log_student_t(torch.full((2, 3), 1e6), torch.zeros(4, 3), 10.0)
    assert torch.isfinite(log_q).all() and torch.isfinite(log_target(log_q)).all()


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.integers(1, 30))
def test_said_tokens_are_a_linear_map_and_its_cross_entropy_in_value_and_gradient(seed: int, tokens: int) -> None:
    """Also where tokens are taken in several goes, and where the table does not learn."""
    hidden, table, bias = made(seed, tokens, 6), made(seed + 1, 11, 6), made(seed + 2, 11)
    wanted = torch.randint(11, (tokens,), generator=torch.Generator().manual_seed(seed))
    for learning in ((hidden, table, bias), (hidden, bias)):
        for one in (hidden, table, bias):
            one.requires_grad_(any(one is other for other in learning))
        expected = cross_entropy(linear(hidden, table, bias), wanted, reduction="sum")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("core.learning.losses._TOKENS_AT_ONCE", 7)
            ours = said_tokens(hidden, table, bias, wanted)
        torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-5)
        by_ours, by_theirs = (torch.autograd.grad(3 * loss, learning) for loss in (ours, expected))
        torch.testing.assert_close(by_ours, by_theirs, atol=1e-4, rtol=1e-4)


def test_said_tokens_neither_overflow_nor_lose_a_gradient_in_half_precision() -> None:
    hidden, table = (made(seed, 5, 6).mul(200).requires_grad_() for seed in (0, 1))
    bias = torch.zeros(5, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        loss = said_tokens(hidden, table, bias, torch.arange(5))
    loss.backward()
    assert torch.isfinite(loss) and loss.dtype == torch.float32
    assert all(one.grad is not None and torch.isfinite(one.grad).all() for one in (hidden, table, bias))
