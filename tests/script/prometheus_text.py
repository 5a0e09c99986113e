"""A strict reader of the text format of Prometheus, version 0.0.4."""
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf'({NAME})(\{{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)+\}})? (\S+)')


def samples_of(text):
    """{name with labels: value}. Raises AssertionError for a text that Prometheus would refuse, or read in another way than meant."""
    assert text.endswith("\n"), "the last line has no end"
    helps, types, samples, current = {}, {}, {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current, about = line[7:].split(" ", 1)
            assert current not in helps and about, line
            helps[current] = about
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert name == current and name not in types and kind in ("counter", "gauge", "histogram"), line
            types[name] = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            name, labels, value = match.groups()
            family = re.sub("_(bucket|sum|count)$", "", name) if types.get(current) == "histogram" else name
            assert family == current and family in types, f"{line} is not of {current}"
            assert types[family] != "counter" or name.endswith("_total"), line
            assert name + (labels or "") not in samples, f"{line} is there twice"
            samples[name + (labels or "")] = float(value)
    for name, kind in types.items():
        if kind == "histogram":
            check_histogram(name, samples)
    return samples


def check_histogram(name, samples):
    """The buckets of each series rise, the last is of all, and equals the count."""
    series = {}
    for sample, value in samples.items():
        if sample.startswith(name + "_bucket{"):
            edge = re.search(r'le="([^"]*)"', sample)[1]
            rest = re.sub(r',?le="[^"]*"', "", sample[len(name) + 7:])
            series.setdefault("" if rest == "{}" else rest, []).append((float(edge.replace("+Inf", "inf")), value))
    for labels, buckets in series.items():
        assert buckets == sorted(buckets) and [value for _, value in buckets] == sorted(value for _, value in buckets), f"{name}{labels}: {buckets}"
        assert buckets[-1][0] == float("inf") and buckets[-1][1] == samples[f"{name}_count{labels}"], f"{name}{labels}: {buckets}"
        assert (samples[f"{name}_sum{labels}"] > 0) == (buckets[-1][1] > 0), f"{name}{labels}: {buckets}"
