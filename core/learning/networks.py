"""The small networks that sit on the trunk."""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import logsumexp
from torch import Tensor, nn

from core.clusters.clustering import cluster_means
from core.encoder.trunk import Trunk
from core.encoder.vectors import squared_distances
from core.learning.decoder import Decoder, TokenHead, pretrained_token_head
from core.learning.losses import in_full, kl_rows, log_student_t, log_target, nt_xent

_SLACK = 0.1  # nats by which a head may begin worse than even chances


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


class Assigning(nn.Module):
    """Heads that assign a vector softly to clusters. Subclasses write ``log_soft``."""

    def log_soft(self, vectors: Tensor) -> Tensor:
        """Log of the probabilities."""
        raise AssertionError(f"{type(self).__name__} assigns nothing")

    def soft(self, vectors: np.ndarray) -> np.ndarray:
        """Return the probabilities of any number of vectors."""
        return self._log_soft(vectors).exp().cpu().numpy()

    def sharpened(self, vectors: np.ndarray) -> np.ndarray:
        """Return the target over a whole set (DEC; ClusterBERT Eq 5), in log space because a softmax underflows."""
        return log_target(self._log_soft(vectors)).exp().cpu().numpy()

    def _log_soft(self, vectors: np.ndarray) -> Tensor:
        with torch.no_grad():
            return self.log_soft(torch.from_numpy(vectors).to(next(self.parameters()).device))


class ScclHeads(Assigning):
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
            log_q = self.log_soft(original)
            term = kl_rows(log_target(log_q), log_q)
        elif self.cluster_loss == "crossed":
            one, two = self.log_soft(first), self.log_soft(second)
            term = kl_rows(log_target(one), two) + kl_rows(log_target(two), one)
        else:
            target = log_target(self.log_soft(original))
            term = kl_rows(target, self.log_soft(first)) + kl_rows(target, self.log_soft(second))
        return {"loss": term, "clustering": term}

    def joint(self, original: Tensor, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Both at once."""
        pull, sharpen = self.contrastive(first, second), self.clustering(original, first, second)
        return pull | sharpen | {"loss": pull["loss"] + sharpen["loss"]}

    def log_soft(self, vectors: Tensor) -> Tensor:
        """Log of the paper's q, which is flat by nature: for comparison, not for reading."""
        return log_student_t(vectors, self.centres.mu, self.alpha)


class ClusterHead(nn.Linear):
    """ClusterBERT's head: linear, then softmax."""

    def point_at(
        self, vectors: np.ndarray, labels: np.ndarray, noisy: tuple[np.ndarray, np.ndarray] | None = None
    ) -> None:
        """Begin so that the likeliest cluster is that of the nearest centre, with chances neither even nor sure.

        W = 2c/T and b = -|c|²/T make the logits -|x - c|²/T but for what all clusters share. T is half the mean gap
        between the nearest and the second centre, so that a typical text's cluster is e² times as likely as the next.
        ``noisy`` are vectors of texts that lack words, and their clusters. Where missing words move a vector further
        than clusters lie apart, as in an encoder that never learnt sentences, T doubles until what the head says of
        them is about as good as even chances: one that is sure of what is wrong would first have to unlearn it.
        """
        centres = cluster_means(vectors, labels, self.out_features).astype(np.float64)
        sample = vectors[:: max(1, len(vectors) // 5_000)]
        gaps = np.partition(squared_distances(sample, centres), 1, axis=1)[:, :2]
        scale = max(float((gaps[:, 1] - gaps[:, 0]).mean()) / 2, 1e-6)
        if noisy is not None:
            away, own = squared_distances(noisy[0], centres), noisy[1]
            while _surprise(-away / scale, own) > np.log(self.out_features) + _SLACK:
                scale *= 2
        with torch.no_grad():
            self.weight.copy_(torch.from_numpy(2 * centres / scale).float())
            self.bias.copy_(torch.from_numpy(-(centres**2).sum(1) / scale).float())


def _surprise(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean cross entropy of labels under logits."""
    return float((logsumexp(logits, axis=1) - logits[np.arange(len(labels)), labels]).mean())


class DenoisingHeads(Assigning):
    """A decoder that reconstructs texts, and a head that predicts their clusters."""

    def __init__(self, trunk: Trunk, clusters: int, used: np.ndarray | None, folder: Path, seed: int) -> None:
        """Start at random by the seed, with the encoder's own language-model head where it has one."""
        super().__init__()
        torch.manual_seed(seed)
        self.decoder = Decoder(trunk, TokenHead(trunk, used, pretrained_token_head(folder)))
        self.cluster = ClusterHead(trunk.shape.width, clusters)

    def cross_entropy(self, vectors: Tensor, wanted: Tensor) -> Tensor:
        """Sum the cross entropy of predictions to soft or hard targets."""
        return -(wanted * self.log_soft(vectors)).sum()

    def log_soft(self, vectors: Tensor) -> Tensor:
        """Log of the head's probabilities p."""
        with in_full(vectors):
            return F.log_softmax(self.cluster(vectors.float()), 1)


class UftHeads(Assigning):
    """A head that fills masks beside centres to which texts are drawn."""

    def __init__(
        self, trunk: Trunk, centres: np.ndarray, alpha: float, used: np.ndarray | None, folder: Path, seed: int
    ) -> None:
        """Start at given centres, with the encoder's own language-model head where it has one."""
        super().__init__()
        torch.manual_seed(seed)
        self.words, self.centres, self.alpha = (
            TokenHead(trunk, used, pretrained_token_head(folder)),
            Centres(centres),
            alpha,
        )

    def divergence(self, vectors: Tensor, target: Tensor) -> Tensor:
        """Sum KL(p || q) over rows (Eq 2), for given targets p."""
        return (torch.xlogy(target, target) - target * self.log_soft(vectors)).sum()

    def log_soft(self, vectors: Tensor) -> Tensor:
        """Log of the paper's q, which is flat by nature."""
        return log_student_t(vectors, self.centres.mu, self.alpha)
