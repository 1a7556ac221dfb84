"""The papers' losses as functions of tensors: float32, log space, each beside its equation.

Symbols are the papers': e vectors, mu centres, q soft assignment, p target, z projected views.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_TOKENS_AT_ONCE = 1_024


def in_full(like: Tensor) -> torch.autocast:
    """Return the context in which products too are in full precision, wherever it is entered."""
    return torch.autocast(like.device.type, enabled=False)


def nt_xent(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Pull two views of a text together and push all other texts of the batch away (SCCL Eq 1-2).

    Mean over all 2M anchors; the denominator holds the positive and the 2M - 2 others. Rows must have length one.
    """
    z = torch.cat([first, second]).float()
    with in_full(z):
        logits = z @ z.T / temperature
    logits = logits.masked_fill(torch.eye(len(z), dtype=torch.bool, device=z.device), -torch.inf)
    partner = torch.arange(len(z), device=z.device).roll(len(first))
    return F.cross_entropy(logits, partner)


def log_student_t(e: Tensor, mu: Tensor, alpha: float) -> Tensor:
    """Log of the soft assignment q of vectors to centres by a Student-t kernel (SCCL Eq 3)."""
    e, mu = e.float(), mu.float()
    with in_full(e):
        squared = ((e**2).sum(1, keepdim=True) + (mu**2).sum(1) - 2 * e @ mu.T).clamp_min(0)
        return F.log_softmax(-(alpha + 1) / 2 * torch.log1p(squared / alpha), dim=1)


def log_target(log_q: Tensor) -> Tensor:
    """Log of the sharpened target p, q squared over cluster frequency (SCCL Eq 4; DEC). Carries no gradient."""
    log_q = log_q.detach().float()
    return F.log_softmax(2 * log_q - log_q.logsumexp(0), dim=1)


def kl_rows(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Kullback-Leibler divergence KL(p || q), averaged over rows (SCCL Eq 5-6)."""
    return (log_p.exp() * (log_p - log_q)).sum(1).mean()


def said_tokens(hidden: Tensor, table: Tensor, bias: Tensor, wanted: Tensor) -> Tensor:
    """Sum the cross entropy of softmax(hidden · tableᵀ + bias) to the tokens wanted (TSDAE; masked words).

    The same as a linear map and ``cross_entropy``, but the gradient is made where the scores are, some tokens at a
    time: the scores, a number for every token of a batch and every word of a language, are neither kept nor
    computed again.
    """
    total: Tensor = _SaidTokens.apply(hidden, table, bias, wanted)
    return total


class _SaidTokens(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, table: Tensor, bias: Tensor, wanted: Tensor) -> Tensor:
        by_hidden, total = torch.empty_like(hidden), hidden.new_zeros((), dtype=bias.dtype)
        by_table, by_bias = (
            torch.zeros_like(one) if needed else None
            for one, needed in zip((table, bias), ctx.needs_input_grad[1:3], strict=True)
        )
        for start in range(0, len(hidden), _TOKENS_AT_ONCE):
            some = hidden[start : start + _TOKENS_AT_ONCE]
            right = wanted[start : start + _TOKENS_AT_ONCE, None]
            scores = F.linear(some, table, bias).to(bias.dtype)
            total -= scores.gather(1, right).sum()
            highest = scores.amax(1, keepdim=True)
            chances = scores.sub_(highest).exp_()
            sums = chances.sum(1, keepdim=True)
            total += (sums.log() + highest).sum()
            gradient = chances.div_(sums).scatter_add_(1, right, -torch.ones_like(sums))
            by_hidden[start : start + _TOKENS_AT_ONCE] = gradient @ table
            if by_table is not None:
                by_table += gradient.T @ some
            if by_bias is not None:
                by_bias += gradient.sum(0)
        ctx.save_for_backward(by_hidden, by_table, by_bias)
        return total

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if one is None else one * outer[0] for one in ctx.saved_tensors), None
