"""Figures of matplotlib, made without pyplot: no window, no state shared with the caller's own."""

import functools
import io
import re
import warnings
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocklinear.errors import UsageError
from blocklinear.outputs import Output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None},
}  # fmt: skip
"""The formats of figures; without these entries the same numbers make the same bytes."""
GREY = "#666666"
"""Of what is not data: goals, diagonals, grids."""
SERIES = (
    "#1f77b4", "#d9640c", "#2a8a2a", "#c62f30", "#7d52b3",
    "#8c564b", "#c44e9f", "#5f5f5f", "#8a8b14", "#0f8f9e",
)  # fmt: skip
"""Colours of lines, each at least 3 : 1 on white; a page replaces them where it is dark."""
CELL = "#155a94"
"""Of the cells of a matrix, at their darkest."""
RAMP = (
    "#471365", "#472d7b", "#414487", "#38598c", "#2f6c8e", "#277e8e", "#21908d", "#1fa287",
)  # fmt: skip
"""Colours of lines in order, as those of several C: the dark part of viridis."""
LONGEST_NAME = 28
"""Characters of a name in a figure."""
LONGEST_LABEL = 44
"""Characters of the label of an axis that has a name in it."""
_WIDTH, _HEIGHT = 5.4, 4.0
_ON_PAGE = 4.3  # inches: the narrower a figure, the larger is its text on the page
_ID = re.compile(r'(\bid="|"#|url\(#)')
_FONT = re.compile(r"""font: ([^;"]*?)(?:px|pt) [^;"]*""")
_FAMILY = re.compile(r"""font-family: [^;"]*;? ?""")


def check_installed() -> None:
    """Refuse to go on without matplotlib.

    Raises UsageError.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"figures need matplotlib, which cannot be imported ({error})",
            "pip install 'blocklinear[plot]'",
        ) from error


@functools.cache
def _picture() -> Any:
    """Return the class of figures, which notebooks show without a backend of their own."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            stream = io.BytesIO()
            self.savefig(stream, format="png", dpi=100)
            return stream.getvalue()

    Picture.__name__ = Picture.__qualname__ = "Figure"
    return Picture


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of some inches, laid out so that no labels overlap.

    UsageError is raised if matplotlib is not installed.
    """
    check_installed()
    figure: Figure = _picture()(figsize=(width, height), layout="constrained")
    return figure


def axes_of(
    ax: "Axes | None", width: float = _WIDTH, height: float = _HEIGHT
) -> tuple["Figure", "Axes"]:
    """Return axes of the caller's with their figure; if there are none, those of a new figure."""
    if ax is not None:
        found: Any = ax.figure
        return found, ax
    figure = new_figure(width, height)
    return figure, figure.subplots()


def colour(number: int) -> str:
    """Return the colour of a line; they repeat."""
    return SERIES[number % len(SERIES)]


def shade(number: int, count: int) -> str:
    """Return the colour of one of several lines in order."""
    return RAMP[round(number * (len(RAMP) - 1) / max(count - 1, 1))]


def plain(text: str, most: int = LONGEST_NAME) -> str:
    """Return text that matplotlib draws as it is, on one line, its middle left out if too long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(line) > most:
        head = (most - 1) * 2 // 3
        line = f"{line[:head]}…{line[len(line) - (most - 1 - head) :]}"
    return line.replace("$", r"\$")


def save(figure: "Figure", output: Output) -> None:
    """Write a figure to a file whose suffix is one of `METADATA`; the same numbers, the same bytes.

    Raises StorageError.
    """
    import matplotlib as mpl

    suffix = Path(output.name).suffix.lower()
    with mpl.rc_context({"svg.hashsalt": "blocklinear"}), output.open() as stream:
        figure.savefig(stream, format=suffix[1:], dpi=150, metadata=METADATA[suffix])


def inline_svg(figure: "Figure", name: str, title: str) -> str:
    """Return a figure as an element of a page, which fetches nothing and takes the page's colours.

    Parameters
    ----------
    name : str                a word that no other figure of the page has: its elements are named
                              after it
    title : str               what it shows, for who cannot see it

    Returns
    -------
    str
        Text is text, in the font and the ``fill`` that the page gives to ``svg text``. Colours are
        the variables ``--ink``, ``--paper``, ``--line``, ``--grey``,
        ``--series-0`` to ``-9`` and ``--ramp-0`` to ``-7`` of the page; the width is that of the
        space there is.
    """
    import matplotlib as mpl

    across, height = figure.get_size_inches()
    figure.set_size_inches(_ON_PAGE, height * _ON_PAGE / across)
    stream = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # readers have their own
        figure.savefig(stream, format="svg", metadata=METADATA[".svg"], transparent=True)
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    view = re.search(r'viewBox="([^"]*)"', text)
    view_box = f' viewBox="{view[1]}"' if view else ""
    text = f"<svg{view_box}><title>{escape(title)}</title>" + text[text.index(">") + 1 :]
    text = _ID.sub(lambda found: f"{found[1]}{name}-", text)
    text = text.replace("xlink:href", "href")
    text = _FAMILY.sub("", _FONT.sub(r"font-size: \1px", text))
    colours = {"#000000": "ink", "#ffffff": "paper", "#cccccc": "line", GREY: "grey", CELL: "cell"}
    colours |= {series: f"series-{k}" for k, series in enumerate(SERIES)}
    colours |= {step: f"ramp-{k}" for k, step in enumerate(RAMP)}
    for given, variable in colours.items():
        text = text.replace(given, f"var(--{variable})")
    return text.rstrip()


def thinned(count: int, most: int) -> Sequence[int]:
    """Return the places of up to `most` of `count` points, evenly, the first and the last too."""
    if count <= most:
        return range(count)
    return [round(k * (count - 1) / (most - 1)) for k in range(most)]
