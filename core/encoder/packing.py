"""Texts of one batch laid end to end: nothing is padded, so nothing is wasted and attention needs no mask."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Pack:
    """How texts of given lengths lie in one flat tensor: longest first, texts of equal length side by side.

    Everything a transformer does token by token works on the flat tensor as it is; attention and pooling look at one
    group of equal lengths after another, each of which is a plain (texts, length) block.
    """

    def __init__(self, lengths: np.ndarray, causal: bool = False) -> None:
        """Sort by length; ``order`` says which text lies where. In a ``causal`` pack no token sees a later one."""
        self.causal = causal
        self.order = np.argsort(-lengths, kind="stable")
        self.lengths = lengths[self.order]
        sizes, counts = np.unique(self.lengths, return_counts=True)
        self.groups = [(int(count), int(size)) for size, count in zip(sizes[::-1], counts[::-1], strict=True)]
        self.tokens = int(lengths.sum())
        self._sizes = [count * size for count, size in self.groups]

    def positions(self) -> np.ndarray:
        """Return each token's place in its text."""
        return np.concatenate([np.tile(np.arange(size), count) for count, size in self.groups])

    def blocks(self, flat: Tensor) -> list[Tensor]:
        """Cut a flat tensor into (texts, length, features) blocks. One split: its gradient is one concatenation."""
        parts = flat.split(self._sizes)
        return [part.view(count, size, -1) for part, (count, size) in zip(parts, self.groups, strict=True)]

    def pooled(self, states: Tensor, pooling: str) -> Tensor:
        """Return one float32 vector per text, in the order in which the lengths were given."""
        blocks = self.blocks(states)
        lying = torch.cat([block[:, 0].float() if pooling == "first" else block.float().mean(1) for block in blocks])
        back = np.empty_like(self.order)
        back[self.order] = np.arange(len(back))
        return lying[torch.from_numpy(back).to(lying.device)]


def attend(pack: Pack, joined: Tensor, heads: int, drop: float, bias: dict[int, Tensor]) -> Tensor:
    """Let every text attend to itself; ``joined`` holds query, key and value side by side.

    ``bias`` holds, for architectures that have one, a bias for each length.
    """
    found = []
    for (count, size), block in zip(pack.groups, pack.blocks(joined), strict=True):
        q, k, v = block.view(count, size, 3, heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.get(size), dropout_p=drop, is_causal=pack.causal)
        found.append(mixed.transpose(1, 2).reshape(count * size, -1))
    return torch.cat(found)


def together(states: Tensor, *maps: nn.Linear) -> Tensor:
    """Apply several linear maps at once: one large product is faster than three small ones."""
    return F.linear(states, torch.cat([map.weight for map in maps]), torch.cat([map.bias for map in maps]))
