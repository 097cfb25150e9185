"""How a report looks: light and dark, on screens of 400 pixels and more, and on paper."""

from blocklinear.markup import STYLE

_LIGHT = {
    "ink": "#1b1f24", "soft": "#57606a", "line": "#d0d7de", "paper": "#ffffff", "card": "#f6f8fa",
    "grey": "#666666", "cell": "#155a94", "good": "#1a7f37", "warn": "#8a5a00", "bad": "#b3261e",
    "series-0": "#1f77b4", "series-1": "#d9640c", "series-2": "#2a8a2a", "series-3": "#c62f30",
    "series-4": "#7d52b3", "series-5": "#8c564b", "series-6": "#c44e9f", "series-7": "#5f5f5f",
    "series-8": "#8a8b14", "series-9": "#0f8f9e",
    "ramp-0": "#471365", "ramp-1": "#472d7b", "ramp-2": "#414487", "ramp-3": "#38598c",
    "ramp-4": "#2f6c8e", "ramp-5": "#277e8e", "ramp-6": "#21908d", "ramp-7": "#1fa287",
}  # fmt: skip
_DARK = {
    "ink": "#e6edf3", "soft": "#9da7b1", "line": "#30363d", "paper": "#0d1117", "card": "#161b22",
    "grey": "#9a9a9a", "cell": "#5aa9e6", "good": "#4ac26b", "warn": "#d9a441", "bad": "#ff7b72",
    "series-0": "#5aa9e6", "series-1": "#f6934b", "series-2": "#5fc55f", "series-3": "#f47174",
    "series-4": "#b491e0", "series-5": "#c99a8e", "series-6": "#e88fcb", "series-7": "#b3b3b3",
    "series-8": "#c9ca4f", "series-9": "#4dc8d8",
    "ramp-0": "#2a788e", "ramp-1": "#23888e", "ramp-2": "#22a785", "ramp-3": "#32b67a",
    "ramp-4": "#50c46a", "ramp-5": "#75d054", "ramp-6": "#9dd93b", "ramp-7": "#cae11f",
}  # fmt: skip
_REST = """
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
font:.94rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1160px;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:1.6rem;line-height:1.25;margin:0;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2.2rem 0 .6rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
h3{font-size:.95rem;margin:0 0 .3rem}
p{margin:.5rem 0;max-width:75ch;overflow-wrap:anywhere}
.status{font-weight:600}
.good{color:var(--good)}.warn{color:var(--warn)}.bad{color:var(--bad)}
.soft,footer{color:var(--soft)}
footer{margin-top:2.5rem;padding-top:.8rem;border-top:1px solid var(--line);font-size:.87rem}
.keys{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:.6rem;
margin:1.1rem 0 0}
.keys div{background:var(--card);border:1px solid var(--line);border-radius:6px;
padding:.55rem .8rem}
.keys dt{color:var(--soft);font-size:.82rem}
.keys dd{margin:0;font-size:1.2rem;font-weight:600;font-variant-numeric:tabular-nums;
overflow-wrap:anywhere}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,340px),1fr));
gap:1.2rem 1.6rem;align-items:start}
figure{margin:0;min-width:0;break-inside:avoid}
figure svg{display:block;width:100%;height:auto;max-width:560px}
figcaption{font-size:.87rem;color:var(--soft);margin-bottom:.2rem}
svg text{font-family:inherit;fill:var(--ink)}
.columns{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,420px),1fr));
gap:0 3rem;align-items:start}
.scroll{overflow-x:auto;max-width:100%}
.blocklinear table{font-size:.92rem;max-width:100%}
.blocklinear td,.blocklinear th{overflow-wrap:anywhere}
.blocklinear th{min-width:4.5em;font-weight:500;color:var(--soft)}
.blocklinear .scroll td{overflow-wrap:break-word}
.blocklinear .number{overflow-wrap:normal}
.blocklinear td:last-child,.blocklinear th:last-child{padding-right:0}
.bar{display:flex;height:1.1rem;border-radius:4px;overflow:hidden;background:var(--line);
margin:.4rem 0 .6rem;max-width:720px;print-color-adjust:exact;-webkit-print-color-adjust:exact}
.key{display:inline-block;width:.75em;height:.75em;border-radius:2px;margin-right:.5em;
print-color-adjust:exact;-webkit-print-color-adjust:exact}
details{margin:.6rem 0}
summary{cursor:pointer;color:var(--soft)}
ul{padding-left:1.2rem;margin:.4rem 0}
li{overflow-wrap:anywhere}
@media print{html{font-size:11px}main{max-width:none;padding:0}
h2{break-after:avoid}.scroll{overflow:visible}}
"""


def style_sheet() -> str:
    """Return the style sheet of a report."""
    light = "".join(f"--{name}:{colour};" for name, colour in _LIGHT.items())
    dark = "".join(f"--{name}:{colour};" for name, colour in _DARK.items())
    themes = f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return themes + STYLE + _REST
