"""The small networks that sit on the trunk."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.nn.losses import kl_rows, log_student_t, log_target, nt_xent


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

    def array(self) -> np.ndarray:
        """Return the centres as they are now."""
        return self.mu.detach().cpu().numpy().copy()

    def move_to(self, centres: np.ndarray) -> None:
        """Put the centres elsewhere."""
        with torch.no_grad():
            self.mu.copy_(torch.from_numpy(np.array(centres, np.float32)))


class ScclHeads(nn.Module):
    """Contrastive head and centres with SCCL's losses over a text and its two views (Eq 7, and appendix A.3)."""

    def __init__(
        self,
        centres: np.ndarray,
        *,
        weight: float,
        temperature: float,
        alpha: float,
        cluster_loss: str,
        seed: int,
    ) -> None:
        """Start the head at random by the seed, the centres where they are given."""
        super().__init__()
        torch.manual_seed(seed)
        self.contrast, self.centres = ContrastiveHead(centres.shape[1]), Centres(centres)
        self.weight, self.temperature, self.alpha, self.cluster_loss = weight, temperature, alpha, cluster_loss

    def contrastive(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Instance-CL alone."""
        term = nt_xent(self.contrast(first), self.contrast(second), self.temperature)
        return {"loss": self.weight * term, "contrastive": term}

    def clustering(self, original: Tensor, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Sharpen the soft assignment: of the texts (Eq 5), crosswise (Eq 8), or of the views by the text (Eq 9)."""
        if self.cluster_loss == "original":
            log_q = self._log_q(original)
            term = kl_rows(log_target(log_q), log_q)
        elif self.cluster_loss == "crossed":
            one, two = self._log_q(first), self._log_q(second)
            term = kl_rows(log_target(one), two) + kl_rows(log_target(two), one)
        else:
            target = log_target(self._log_q(original))
            term = kl_rows(target, self._log_q(first)) + kl_rows(target, self._log_q(second))
        return {"loss": term, "clustering": term}

    def joint(self, original: Tensor, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Both at once."""
        pull, sharpen = self.contrastive(first, second), self.clustering(original, first, second)
        return pull | sharpen | {"loss": pull["loss"] + sharpen["loss"]}

    def soft(self, vectors: np.ndarray) -> np.ndarray:
        """Return the paper's q, which is flat by nature: for comparison, not for reading."""
        with torch.no_grad():
            return self._log_q(torch.from_numpy(vectors).to(self.centres.mu.device)).exp().cpu().numpy()

    def _log_q(self, vectors: Tensor) -> Tensor:
        return log_student_t(vectors, self.centres.mu, self.alpha)
