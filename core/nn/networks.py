"""The small networks that sit on the trunk."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ContrastiveHead(nn.Module):
    """SCCL's projection: width -> width -> 128, ReLU between, rows of length one."""

    def __init__(self, width: int, out: int = 128) -> None:
        """Start at random, as the paper does."""
        super().__init__()
        self.hidden, self.project = nn.Linear(width, width), nn.Linear(width, out)

    def forward(self, vectors: Tensor) -> Tensor:
        """Project and normalise."""
        return F.normalize(self.project(F.relu(self.hidden(vectors.float()))), dim=1)


class Centres(nn.Module):
    """Cluster centres that learn, in the space of the vectors."""

    def __init__(self, start: np.ndarray) -> None:
        """Start at given centres, usually those of k-means."""
        super().__init__()
        self.mu = nn.Parameter(torch.from_numpy(np.array(start, np.float32)))
