"""TF-IDF + partition: word counts in which rare words weigh more."""

from dataclasses import dataclass

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from core.methods.bow import Bow


@dataclass(frozen=True)
class Tfidf(Bow):
    """Weighs the words of each text by how rare they are in the corpus and groups texts that share them.

    Choose it where fixed terms decide, such as product names or error codes, or as the baseline to beat.

    Relations: bow with rare words weighted up; embed also sees that different words can mean the same.
    """

    name = "tfidf"
    title = "TF-IDF + k-means"

    def vectoriser(self) -> TfidfVectorizer:
        """Return what turns texts into rows of numbers."""
        return TfidfVectorizer(max_features=self.features, dtype=np.float32)
