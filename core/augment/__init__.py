"""The augmenters. A new one is a file in this folder and a name in the line below."""

from core.augment.backtranslation import BackTranslation
from core.augment.base import Augmenter
from core.augment.charswap import CharSwap
from core.augment.contextual import Contextual
from core.augment.neighbour import Neighbour
from core.augment.worddrop import WordDrop
from core.augment.wordnet import WordNet

AUGMENTERS: dict[str, type[Augmenter]] = {
    kind.name: kind for kind in (Contextual, Neighbour, WordNet, BackTranslation, WordDrop, CharSwap)
}
