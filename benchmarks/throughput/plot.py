"""Draw bars as SVG: milliseconds of CPU for each pod, one bar for each contender, one segment for each process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

COLOURS = {
    "kube-scheduler": "#4477aa",
    "extender": "#ee6677",
    "kube-apiserver": "#ccbb44",
    "etcd": "#66ccee",
    "kube-controller-manager": "#228833",
    "other scheduler": "#bbbbbb",
}
WIDTH, LEFT, RIGHT, TOP, BAR, GAP = 860, 250, 60, 64, 18, 4


def stacked_bars(title: str, unit: str, bars: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    """Draw ``bars`` (label, process -> amount) in the order given; an empty label leaves a gap."""
    top = max((sum(max(amount, 0) for amount in parts.values()) for _, parts in bars), default=1.0) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / top
    height = TOP + len(bars) * (BAR + GAP) + 16
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif"'
        f' font-size="12"><rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="12" y="20" font-size="14">{title}</text>',
        *_legend(sorted({name for _, parts in bars for name in parts}, key=list(COLOURS).index)),
    ]
    for number, (label, parts) in enumerate(bars):
        if label:
            lines.extend(_bar(TOP + number * (BAR + GAP), label, parts, scale, unit))
    return "\n".join([*lines, "</svg>", ""])


def _legend(names: Sequence[str]) -> list[str]:
    lines = []
    for number, name in enumerate(names):
        at = 12 + 150 * number
        lines.append(f'<rect x="{at}" y="32" width="12" height="12" fill="{COLOURS[name]}"/>')
        lines.append(f'<text x="{at + 18}" y="42">{name}</text>')
    return lines


def _bar(y: int, label: str, parts: Mapping[str, float], scale: float, unit: str) -> list[str]:
    middle = y + BAR - 5
    lines = [f'<text x="{LEFT - 8}" y="{middle}" text-anchor="end">{label}</text>']
    x = float(LEFT)
    for name in COLOURS:
        wide = max(parts.get(name, 0.0), 0.0) * scale
        if wide:
            colour = COLOURS[name]
            lines.append(
                f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{BAR}" fill="{colour}">'
                f"<title>{name}: {parts[name]:.2f} {unit}</title></rect>"
            )
        x += wide
    total = sum(max(amount, 0.0) for amount in parts.values())
    return [*lines, f'<text x="{x + 6:.1f}" y="{middle}">{total:.1f}</text>']
