"""How the time of a step grows: with context, layers, batch, vocabulary and threads. One picture, a panel for each, lines of
the measured time and of the work it has to do. bench/table --growth runs it."""
import json
import math
import os
import statistics
import sys
from html import escape

from sides import BUILT, ROOT, output_of

FILE = ROOT / "docs" / "growth.svg"
SHAPE = {"model_type": "llama", "vocab_size": 8192, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8,
         "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 32768, "tie_word_embeddings": True}
STEP, WIDTH, HEIGHT, LEFT, TOP = ("step", "--rows", 64), 300, 210, 66, 46
PER_ROW, ROUNDS = 3, 2


def series(threads):
    """(title, axis, [(x, changes of the shape, words of dllm bench, threads)])"""
    powers = [2**i for i in range(12) if 2**i < threads] + [threads]
    decode = ("decode", "--rows", 32, "--context")
    return [
        ("step of a block of 32", "context", [(n, {}, (*decode, n), threads) for n in (256, 1024, 4096, 16384)]),
        ("step of 64 rows", "layers", [(n, {"num_hidden_layers": n}, STEP, threads) for n in (4, 8, 16, 32)]),
        ("training step, rows of 64", "batch", [(n, {}, ("train", "--batch", n, "--length", 64), threads) for n in (1, 2, 4, 8, 16)]),
        ("step of 64 rows", "vocabulary", [(n, {"vocab_size": n}, STEP, threads) for n in (8192, 32768, 65536, 131072)]),
        ("step of 64 rows", "threads", [(n, {}, STEP, n) for n in powers]),
    ]


def line_of(program, changes, words, threads):
    folder = BUILT / "growth"
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.json"
    config.write_text(json.dumps({**SHAPE, **changes}))
    return json.loads(output_of([program, "bench", words[0], "--model", config, *words[1:], "--threads", threads, "--repeat", 7,
                                 "--json"]).splitlines()[0])


def slope(points):
    """Of a straight line through the logarithms; None for one point."""
    x, y = [math.log(p[0]) for p in points], [math.log(p[1]) for p in points]
    if len(set(x)) < 2:
        return None
    mean_x, mean_y = statistics.mean(x), statistics.mean(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


def measure(program, threads):
    panels = []
    for title, axis, points in series(threads):
        fastest, flops = {}, {}
        for turn in range(ROUNDS):
            for x, changes, words, own_threads in points[::-1 if turn % 2 else 1]:
                print(f"growth with {axis}: {x}", file=sys.stderr, flush=True)
                line = line_of(program, changes, words, own_threads)
                fastest[x] = min(line["min_seconds"], fastest.get(x, math.inf))
                flops[x] = line["flops"] / own_threads
        measured, work = sorted(fastest.items()), sorted(flops.items())
        # The work as a time: at the rate of the point where it is largest.
        last = max(range(len(work)), key=lambda i: work[i][1])
        scale = measured[last][1] / work[last][1]
        panels.append({"title": title, "axis": axis, "measured": measured, "work": [(x, y * scale) for x, y in work]})
    return panels


def count_text(value):
    return f"{value // 1024}k" if value >= 1024 and value % 1024 == 0 else str(value)


def time_text(seconds):
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def panel_svg(panel, left, top):
    every = panel["measured"] + panel["work"]
    low_x, high_x = math.log(min(p[0] for p in every)), math.log(max(p[0] for p in every))
    low_y, high_y = math.log(min(p[1] for p in every)), math.log(max(p[1] for p in every))
    inner_w, inner_h = WIDTH - LEFT - 28, HEIGHT - TOP - 40

    def place(x, y):
        across = (math.log(x) - low_x) / (high_x - low_x or 1)
        up = (math.log(y) - low_y) / (high_y - low_y or 1)
        return f"{left + LEFT + across * inner_w:.1f},{top + TOP + (1 - up) * inner_h:.1f}"

    def line(points, kind):
        return f'<polyline class="{kind}" points="{" ".join(place(*p) for p in points)}"/>'

    own, needed = slope(panel["measured"]), slope(panel["work"])
    slopes = f"slope {own:.2f}, of the work {needed:.2f}" if own is not None else "one point"
    bottom = top + TOP + inner_h
    parts = [f'<rect class="bg" x="{left + 4.5}" y="{top + 4.5}" width="{WIDTH - 9}" height="{HEIGHT - 9}" rx="8"/>',
             f'<text class="t" x="{left + 14}" y="{top + 22}">{escape(panel["title"])}</text>',
             f'<text x="{left + 14}" y="{top + 37}">{slopes}</text>',
             f'<path class="a" d="M{left + LEFT} {top + TOP} V{bottom} H{left + LEFT + inner_w}"/>',
             f'<text class="e" x="{left + LEFT - 4}" y="{top + TOP + 9}">{time_text(math.exp(high_y))}</text>',
             f'<text class="e" x="{left + LEFT - 4}" y="{bottom}">{time_text(math.exp(low_y))}</text>',
             f'<text class="m" x="{left + LEFT + inner_w / 2}" y="{bottom + 31}">{panel["axis"]}</text>',
             line(panel["work"], "w"), line(panel["measured"], "l")]
    for x, y in panel["measured"]:
        at_x, at_y = place(x, y).split(",")
        parts += [f'<circle class="p" cx="{at_x}" cy="{at_y}" r="3"><title>{x}: {time_text(y)}</title></circle>',
                  f'<text class="m" x="{at_x}" y="{bottom + 15}">{count_text(x)}</text>']
    return "\n".join(parts)


def picture(panels, note):
    rows = -(-len(panels) // PER_ROW)
    width, height = PER_ROW * WIDTH, rows * HEIGHT + 48
    style = ("text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#6b7280}.t{fill:#1f2937;font-weight:600}.e{text-anchor:end}"
             ".m{text-anchor:middle}.bg{fill:#fff;stroke:#e5e7eb}.a{fill:none;stroke:#9ca3af}.l{fill:none;stroke:#b45309;stroke-width:2}"
             ".w{fill:none;stroke:#6b7280;stroke-dasharray:4 4}.p{fill:#b45309}"
             "@media(prefers-color-scheme:dark){.bg{fill:#111827;stroke:#374151}.t{fill:#e5e7eb}text{fill:#9ca3af}.l{stroke:#f59e0b}.p{fill:#f59e0b}}")
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
             'style="max-width:100%;height:auto" role="img" aria-label="Time of a step against context, layers, batch, vocabulary and threads">',
             f"<style>{style}</style>"]
    parts += [panel_svg(panel, i % PER_ROW * WIDTH, i // PER_ROW * HEIGHT) for i, panel in enumerate(panels)]
    parts += [f'<text x="14" y="{height - 28}">orange: fastest of the repetitions; dashed: the flops it has to do over its threads, at '
              "the rate of the largest point; both axes logarithmic</text>",
              f'<text x="14" y="{height - 12}">{escape(note)}</text>', "</svg>\n"]
    return "\n".join(parts)


def run(program, threads, note):
    panels = measure(program, threads)
    FILE.write_text(picture(panels, note))
    for panel in panels:
        own, needed = slope(panel["measured"]), slope(panel["work"])
        times = ", ".join(f"{x}: {time_text(y)}" for x, y in panel["measured"])
        print(f"{panel['axis']}: slope {own:.2f}, of the work {needed:.2f} ({times})" if own is not None else f"{panel['axis']}: {times}")
    print(f"wrote {os.path.relpath(FILE, ROOT)}")
