#!/usr/bin/env python3
"""Runs replay packages on a GPU and tells how many run and how near their times come to the trace's.

    for t in TRACES; do
        jarvis replay $t --op '*' --max-packages 1000 --max-entries 1000 -o packages/$(basename $t .json.gz)
    done
    python3 tools/replay_device.py packages --json results.json [-- options of the replayer]

Every package is unpacked and run with its own replayer, all in one process so that PyTorch starts once. The table has
one line per trace; `--table FILE` writes it as Markdown.
"""

import argparse
import contextlib
import importlib
import io
import json
import os
import sys
import tempfile
import time
import zipfile

MODULES = ("replay", "batched_replay", "utils", "timing", "verify")
# Calls shorter than this are mostly launch and cache effects: they must run, their time is not judged.
JUDGED_US = 20.0
TOLERANCE = 0.15


def run_package(path, options):
    """Results of one package and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(path) as file:
            file.extractall(folder)
        with open(os.path.join(folder, "replay_ir.json")) as file:
            entries = {entry["id"]: entry for entry in json.load(file)}
        sys.path.insert(0, folder)
        for name in MODULES:
            sys.modules.pop(name, None)
        out = os.path.join(folder, "results.json")
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                arguments = [os.path.join(folder, "replay_ir.json"), "--json", out] + options
                importlib.import_module("batched_replay").main(arguments)
        finally:
            sys.path.remove(folder)
        with open(out) as file:
            results = json.load(file)
    for result in results["entries"]:
        entry = entries[result["id"]]
        result["sum_us"] = entry["trace"]["kernel_time_us"]["sum"]
        result["traced_kernels"] = entry["trace"]["kernels"]
        result["inputs"] = [[raw["type"], raw["dims"], raw["concrete"]] for raw in entry["inputs"]]
    return results, printed.getvalue()


def summarize(name, entries):
    total = sum(e["sum_us"] for e in entries)
    ran = sum(e["sum_us"] for e in entries if e["status"] == "ok")
    judged = [e for e in entries if e["status"] == "ok" and e["trace_us"] >= JUDGED_US and e.get("ratio")]
    near = [e for e in judged if abs(e["ratio"] - 1) <= TOLERANCE]
    same = [e for e in judged if e.get("kernel_match") == "same kernels"]
    return {
        "trace": name, "entries": len(entries), "ms": total / 1e3, "ran_percent": 100 * ran / total if total else 0,
        "failed": sum(e["status"] == "failed" for e in entries),
        "skipped": sum(e["status"] == "skipped" for e in entries),
        "judged": len(judged), "near": len(near), "same_kernels": len(same),
    }


def row(s):
    share = lambda n: "%d (%.0f %%)" % (n, 100.0 * n / s["judged"]) if s["judged"] else "-"
    ran = "%.1f %%" % s["ran_percent"] if s["entries"] else "-"
    return "| %s | %d | %.2f | %s | %d | %d | %s | %s |" % (
        s["trace"], s["entries"], s["ms"], ran, s["failed"] + s["skipped"], s["judged"], share(s["near"]),
        share(s["same_kernels"]))


HEAD = """\
| trace | calls | GPU ms | ran, by time | did not run | above 20 us | within 15 % | same kernels |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""


def main():
    argv = sys.argv[1:]
    options = argv[argv.index("--") + 1:] if "--" in argv else []
    argv = argv[: argv.index("--")] if "--" in argv else argv
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("packages", help="folder with one folder per trace")
    p.add_argument("--json", default="replay_device.json")
    p.add_argument("--table", help="Markdown file")
    p.add_argument("--log", help="file for what the replayers print")
    p.add_argument("--seconds", type=float, default=1e9, help="start no package after this time")
    args = p.parse_args(argv)
    began, everything, tables, head = time.time(), {}, [], None
    log = open(args.log, "w") if args.log else io.StringIO()
    for trace in sorted(os.listdir(args.packages)):
        folder = os.path.join(args.packages, trace, "replay_packages")
        if not os.path.isdir(folder):
            continue
        entries = []
        for name in sorted(os.listdir(folder)):
            if name.endswith(".zip") and time.time() - began < args.seconds:
                results, printed = run_package(os.path.join(folder, name), options)
                head = head or {key: results[key] for key in ("device_name", "torch_version", "driver")}
                log.write("== %s %s\n%s" % (trace, name, printed))
                log.flush()
                entries += results["entries"]
        everything[trace] = entries
        tables.append(summarize(trace, entries))
        print(row(tables[-1]), "%.0f s" % (time.time() - began), flush=True)
        with open(args.json, "w") as file:
            json.dump({"head": head, "traces": everything, "summary": tables}, file)
    tables.append(summarize("all", [entry for entries in everything.values() for entry in entries]))
    text = "\n".join([HEAD] + [row(s) for s in tables]) + "\n"
    print("torch %(torch_version)s, driver %(driver)s, %(device_name)s" % head)
    print(text)
    if args.table:
        with open(args.table, "w") as file:
            file.write(text)


if __name__ == "__main__":
    main()
