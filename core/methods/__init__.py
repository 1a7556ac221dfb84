"""The methods. A new one is a file in this folder and a name in the line below."""

from core.errors import BadInput
from core.methods.base import Method
from core.methods.bow import Bow
from core.methods.clusterbert import ClusterBert
from core.methods.embed import Embed
from core.methods.sccl import Sccl
from core.methods.tfidf import Tfidf
from core.methods.tsdae import Tsdae
from core.methods.uft import Uft

METHODS: dict[str, type[Method]] = {
    method.name: method for method in (Embed, Sccl, ClusterBert, Uft, Tsdae, Tfidf, Bow)
}


def find_method(name: str) -> type[Method]:
    """Return the method of that name, or say which there are."""
    if name not in METHODS:
        raise BadInput(f"There is no method “{name}”; there are {', '.join(METHODS)}.")
    return METHODS[name]
