"""How well vectors find what belongs to a query, to see whether clustering cost meaning (ClusterBERT, Fig 4)."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.clusters.evaluate import retrieval
from core.encoder.encoder import Encoder
from core.encoder.vectors import normalised
from core.errors import BadInput

_YES, _NO = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no")


@dataclass(frozen=True)
class Lists:
    """Rows of query, candidate and whether the candidate answers the query."""

    queries: list[str]
    candidates: list[str]
    relevant: np.ndarray

    @classmethod
    def read(cls, frame: pd.DataFrame, query: str, candidate: str, relevant: str) -> "Lists":
        """Take three columns of a table, refusing in words what cannot be one."""
        for column in (query, candidate, relevant):
            if column not in frame.columns:
                raise BadInput(f"There is no column “{column}”; there are {', '.join(map(str, frame.columns))}.")
        rows = {name: frame[name].fillna("").astype(str).str.strip().tolist() for name in (query, candidate, relevant)}
        for column, cells in rows.items():
            if "" in cells:
                raise BadInput(f"Row {cells.index('') + 1:,} has nothing in the column “{column}”.")
        said = [value.lower() for value in rows[relevant]]
        for value in said:
            if value not in _YES + _NO:
                raise BadInput(f"The column “{relevant}” must hold 1 or 0, true or false; it holds “{value}”.")
        return cls(rows[query], rows[candidate], np.array([value in _YES for value in said]))


def measure_retrieval(lists: Lists, encoder: Encoder, pooling: str) -> dict[str, float | int]:
    """Rank every query's candidates by cosine and measure; a query or candidate is encoded once."""
    texts = list(dict.fromkeys(lists.queries + lists.candidates))
    place = {text: row for row, text in enumerate(texts)}
    tokens, _ = encoder.tokens(texts)
    vectors = np.empty((len(texts), encoder.shape.width), np.float32)
    for rows, batch in encoder.vectors(tokens, pooling):
        vectors[rows] = batch
    vectors = normalised(vectors)
    asked, offered = (np.array([place[text] for text in side]) for side in (lists.queries, lists.candidates))
    alike = np.einsum("nd,nd->n", vectors[asked], vectors[offered])
    return retrieval((alike[asked == query], lists.relevant[asked == query]) for query in np.unique(asked))
