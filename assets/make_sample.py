"""Make the bundled sample corpus: 3,000 invented customer messages over 12 known themes.

What: ``python assets/make_sample.py`` reads the hand-written words in ``sample_messages.txt`` and rewrites
``sample.csv`` (columns ``id,date,channel,message,theme``), both next to this script. Everything random comes
from one seeded generator, so the file is byte-identical every time.

Why: the sample lets a newcomer try Topicscope without a file of their own, and lets the tests score a
clustering, since the true theme of every row is known. It is meant to be as untidy as a real export: every
theme is said in many wordings, all themes share their nouns (order, account, card, money, app, parcel), and
there are typos, shouting, blank cells, other languages, repeats and spreadsheet-formula look-alikes.

How: a message is a core sentence of its theme, by chance with an opener, a context sentence, a further
detail, a closer and a sign-off around it, then roughened by the noise whose rates stand below.
"""

import csv
import random
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

SEED = 20250611
FIRST_DAY = date(2025, 1, 1)
DAYS = 365

# What a row is, as shares of all rows; the rest are ordinary English messages.
ROW_RATES = {"blank": 0.01, "non-text": 0.004, "duplicate": 0.03, "foreign": 0.04, "phone": 0.08}

# What stands around the core sentence, as chances for each channel.
PART_RATES = {
    "email": {"opener": 0.40, "context": 0.22, "closer": 0.25, "signoff": 0.20},
    "chat": {"opener": 0.20, "context": 0.10, "closer": 0.12, "signoff": 0.0},
    "app": {"opener": 0.08, "context": 0.08, "closer": 0.10, "signoff": 0.0},
}
DETAIL_RATE = 0.4
CHANNEL_WEIGHTS = {"email": 40, "chat": 33, "app": 19}
SMALL_LETTER_RATE = 0.6  # "Hi, my order" rather than "Hi, My order"
AGENT_REMARK_RATE = 0.4
FOREIGN_OPENER_RATE = 0.4
FOREIGN_CLOSER_RATE = 0.4
CONTEXT_FIRST_RATE = 0.5
PARAGRAPH_RATE = 0.05  # emails broken into several lines

# How a finished English message is roughened, as chances for each message.
TYPO_RATE = 0.12
NO_APOSTROPHE_RATE = 0.10
LOWER_CASE_RATE = 0.08
UPPER_CASE_RATE = 0.02
EXTRA_SPACE_RATE = 0.03
WIDENED_SPACES = 0.25  # share of the spaces widened in such a message
EMOJI_RATE = 0.04

BLANKS = ("", "", "", " ", "   ")
NON_TEXTS = ("???", "12345", "--", "...", "0", "n/a", "!!", "?")
EMOJIS = {
    "order": "😡😞🙄📦😤😕",
    "account": "😡🙄📱😕🤯🙏",
    "howto": "🙂🤔🙏😕",
    "question": "🙂🤔🙏😊",
    "thanks": "😊💛👏🌟🙏😍",
}
LANGUAGES = ("de", "fr", "es")
MARKS = {">": "detail", "tel:": "phone", "raw:": "raw"} | {f"{code}:": code for code in LANGUAGES}

# These word lists give the same word all through one message; the others are drawn anew each time.
BOUND_WORDS = {"item", "fragile", "wear", "bulky", "electric", "odd", "occasion", "name", "amount"}
FRESH_TRIES = 40
# First words that may lose their capital after an opener such as "Hi,".
STARTERS = re.compile(r"(The|My|Your?|It|How|Is|Can|Could|Does?|Where|Why|When|What|There|Please|This)\b")

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "sample_messages.txt"
TARGET = HERE / "sample.csv"
COLUMNS = ("id", "date", "channel", "message", "theme")


@dataclass
class Theme:
    """One theme: its name, its kind (which shared phrases suit it), its number of rows and its lines."""

    name: str
    kind: str
    rows: int
    lines: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


@dataclass
class Library:
    """Everything the text file holds: word lists, shared phrases by (part, kind), and the themes."""

    words: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    shared: defaultdict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    themes: list[Theme] = field(default_factory=list)


@dataclass
class Row:
    """One row of the corpus before it gets its id."""

    day: date
    channel: str
    message: str
    theme: str


def read_library(path: Path) -> Library:
    """Read the hand-written text file; its own first lines explain the format."""
    library = Library()
    section, rest = "", ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("%"):
            continue
        if line.startswith("== "):
            section, rest = (part.strip() for part in line[3:].split(":", 1))
            if section == "theme":
                name, kind, rows = (part.strip() for part in rest.split("|"))
                library.themes.append(Theme(name, kind, int(rows)))
        elif section == "theme":
            mark, _, text = line.partition(" ")
            part = MARKS.get(mark, "core")
            library.themes[-1].lines[part].append(line.strip() if part == "core" else text.strip())
        elif section == "words":
            library.words[rest].append(line.strip())
        else:
            for kind in rest.split():
                library.shared[section, kind].append(line.strip())
    return library


class Writer:
    """Turns the library's lines into finished messages, with one random generator for everything."""

    def __init__(self, library: Library, rng: random.Random) -> None:
        """Keep the library and the generator, and start with nothing written."""
        self.library = library
        self.rng = rng
        self.decks: dict[tuple[str, str], list[str]] = {}
        self.written: set[str] = set()
        self.bound: dict[str, str] = {}

    def chance(self, rate: float) -> bool:
        """Say yes with the given chance."""
        return self.rng.random() < rate

    def deal(self, owner: str, part: str, lines: list[str]) -> str:
        """Give the next line of a shuffled deck, so that every line is used before any comes again."""
        deck = self.decks.setdefault((owner, part), [])
        if not deck:
            deck.extend(self.rng.sample(lines, len(lines)))
        return deck.pop()

    def fill(self, match: re.Match[str]) -> str:
        """Resolve one bracket: {a|b} any, {she/he} one side for the whole message, {###} digits, {word}."""
        inside = match[1]
        if "|" in inside:
            return self.rng.choice(inside.split("|"))
        if "/" in inside:
            side = self.bound.setdefault("/", self.rng.choice("01"))
            return inside.split("/")[int(side)]
        if set(inside) == {"#"}:
            return str(self.rng.randrange(10 ** (len(inside) - 1), 10 ** len(inside)))
        if inside not in self.library.words:
            raise ValueError(f"unknown word list {{{inside}}}")
        if inside in BOUND_WORDS:
            return self.bound.setdefault(inside, self.rng.choice(self.library.words[inside]))
        return self.rng.choice(self.library.words[inside])

    def expand(self, line: str) -> str:
        """Resolve all brackets, innermost first, tidy the spaces and begin with a capital."""
        found = 1
        while found:
            line, found = re.subn(r"\{([^{}]*)\}", self.fill, line)
        line = " ".join(line.split())
        return line[:1].upper() + line[1:]

    def fresh(self, owner: str, part: str, lines: list[str]) -> str:
        """Expand the next line of a deck to a wording that has not been written yet, as far as it can be."""
        text = ""
        for _ in range(FRESH_TRIES):
            self.bound = {}
            text = self.expand(self.deal(owner, part, lines))
            if text not in self.written:
                break
        self.written.add(text)
        return text

    def shared(self, part: str, kind: str) -> str:
        """Expand one of the phrases that all themes of a kind share."""
        return self.expand(self.deal(kind, part, self.library.shared[part, kind]))

    def phone_note(self, theme: Theme) -> str:
        """Write a note that a colleague typed during a call."""
        note = self.fresh(theme.name, "phone", theme.lines["phone"])
        if self.chance(AGENT_REMARK_RATE):
            note += " " + self.shared("agent", theme.kind)
        return note

    def foreign_message(self, theme: Theme) -> str:
        """Write a message in one of the other languages."""
        language = self.rng.choice(LANGUAGES)
        message = self.fresh(theme.name, language, theme.lines[language])
        if self.chance(FOREIGN_OPENER_RATE):
            message = self.shared("foreign opener", language) + " " + message
        if self.chance(FOREIGN_CLOSER_RATE):
            message += " " + self.shared("foreign closer", language)
        return message

    def english_message(self, theme: Theme, channel: str) -> str:
        """Write an ordinary message: a core sentence with, by chance, the other parts around it."""
        core = self.fresh(theme.name, "core", theme.lines["core"])
        part = {
            name: self.shared(name, theme.kind) if self.chance(rate) else ""
            for name, rate in PART_RATES[channel].items()
        }
        if self.chance(DETAIL_RATE):
            core += " " + self.expand(self.deal(theme.name, "detail", theme.lines["detail"]))
        body = [part["context"], core] if self.chance(CONTEXT_FIRST_RATE) else [core, part["context"]]
        text = " ".join(filter(None, body))
        if part["opener"].endswith(",") and STARTERS.match(text) and self.chance(SMALL_LETTER_RATE):
            text = text[0].lower() + text[1:]
        pieces = filter(None, (part["opener"], text, part["closer"], part["signoff"]))
        in_lines = channel == "email" and self.chance(PARAGRAPH_RATE)
        return self.roughen(("\n" if in_lines else " ").join(pieces), theme.kind)

    def roughen(self, message: str, kind: str) -> str:
        """Apply each sort of noise by its own chance."""
        noises: tuple[tuple[float, Callable[[str], str]], ...] = (
            (TYPO_RATE, self.with_typos),
            (NO_APOSTROPHE_RATE, lambda text: text.replace("'", "")),
            (LOWER_CASE_RATE, str.lower),
            (UPPER_CASE_RATE, str.upper),
            (EXTRA_SPACE_RATE, self.with_extra_spaces),
            (EMOJI_RATE, lambda text: f"{text} {self.rng.choice(EMOJIS[kind]) * self.rng.choice((1, 1, 2))}"),
        )
        for rate, noise in noises:
            if self.chance(rate):
                message = noise(message)
        return message

    def with_typos(self, message: str) -> str:
        """Swap, drop or double a letter inside one to three of the longer words."""
        letters = list(message)
        inner = [match.start() + 1 for match in re.finditer(r"[a-z]{5,}", message)]
        count = min(len(inner), self.rng.choice((1, 1, 2, 3)))
        for place in sorted(self.rng.sample(inner, count), reverse=True):
            at = place + self.rng.randrange(3)
            slip = self.rng.choice(("swap", "drop", "double"))
            if slip == "swap":
                letters[at], letters[at - 1] = letters[at - 1], letters[at]
            elif slip == "drop":
                del letters[at]
            else:
                letters.insert(at, letters[at])
        return "".join(letters)

    def with_extra_spaces(self, message: str) -> str:
        """Widen some of the spaces."""
        return re.sub(" ", lambda _: "  " if self.chance(WIDENED_SPACES) else " ", message)


def make_row(sort: str, theme: Theme, writer: Writer, ordinary: list[Row]) -> Row:
    """Make one row of the given sort; a duplicate repeats one of the ordinary rows up to three days later."""
    rng = writer.rng
    offset = rng.randrange(DAYS)
    channel = rng.choices(list(CHANNEL_WEIGHTS), list(CHANNEL_WEIGHTS.values()))[0]
    if sort == "duplicate" and ordinary:
        first = rng.choice(ordinary)
        offset = min((first.day - FIRST_DAY).days + rng.randrange(4), DAYS - 1)
        channel, message = first.channel, first.message
    elif sort == "blank":
        message = rng.choice(BLANKS)
    elif sort == "non-text":
        message = rng.choice(NON_TEXTS)
    elif sort == "foreign":
        message = writer.foreign_message(theme)
    elif sort == "phone":
        channel, message = "phone note", writer.phone_note(theme)
    elif sort == "raw":
        message = writer.deal(theme.name, sort, theme.lines[sort]).replace("\\n", "\n")
    else:
        message = writer.english_message(theme, channel)
    return Row(FIRST_DAY + timedelta(days=offset), channel, message, theme.name)


def make_rows(theme: Theme, writer: Writer) -> list[Row]:
    """Make a theme's rows: its verbatim lines once each, then a mixture by the rates at the top."""
    rows = [make_row("raw", theme, writer, []) for _ in theme.lines["raw"]]
    ordinary: list[Row] = []
    sorts, rates = [*ROW_RATES, "ordinary"], [*ROW_RATES.values(), 1 - sum(ROW_RATES.values())]
    for sort in writer.rng.choices(sorts, rates, k=theme.rows - len(rows)):
        rows.append(make_row(sort, theme, writer, ordinary))
        if sort == "ordinary":
            ordinary.append(rows[-1])
    return rows


def make_corpus(library: Library, seed: int = SEED) -> list[Row]:
    """Make all rows, mixed and in order of date."""
    rng = random.Random(seed)
    writer = Writer(library, rng)
    rows = [row for theme in library.themes for row in make_rows(theme, writer)]
    rng.shuffle(rows)
    return sorted(rows, key=lambda row: row.day)


def write_csv(rows: list[Row], path: Path) -> None:
    """Write the rows as UTF-8 with line feeds, the same bytes on every system."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for number, row in enumerate(rows, start=1):
            table.writerow((f"M{number:05d}", row.day.isoformat(), row.channel, row.message, row.theme))


def main() -> None:
    """Rewrite the sample next to this script."""
    rows = make_corpus(read_library(SOURCE))
    write_csv(rows, TARGET)
    print(f"{TARGET.name}: {len(rows)} rows")


if __name__ == "__main__":
    main()
