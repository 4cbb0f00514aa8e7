#!/usr/bin/env python3
"""Replays recorded PyTorch operations on the shapes of a trace and compares the time with the trace's.

Needs PyTorch and the files beside it. Results are printed and written as JSON.
"""

import argparse
import collections
import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys

try:
    import torch

    from timing import Clock, Replayed, copies, profiled
    from utils import Call, Skip, needed_bytes
    from verify import backward_call, verify
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    # What can be told without it is told.
    torch = None

# Calls shorter than this are timed in blocks: an event pair around one would measure its launch as well.
SHORT_US = 30.0
PROFILED_CALLS = 10
# Calls longer than this are followed by a pause under the profiler.
LONG_US = 100.0
# Share of the free device memory that an entry may take.
MEMORY_SHARE = 0.9


def arguments(argv):
    here = os.path.dirname(os.path.abspath(__file__))
    default = "cuda" if torch and torch.cuda.is_available() else "cpu"
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("ir", nargs="?", default=os.path.join(here, "replay_ir.json"), help="replay_ir.json")
    p.add_argument("--device", default=default, help="cuda (also for ROCm) or cpu [%(default)s]")
    p.add_argument("--op", "--op-filter", default="", metavar="TEXT", help="only entries whose id has it")
    p.add_argument("--op-limit", type=int, metavar="N", help="only the first N entries")
    p.add_argument("--id", help="only this entry")
    p.add_argument("--warmup", type=int, default=10, metavar="N", help="untimed calls, also at least 50 ms [10]")
    p.add_argument("--repeat", "--iters", dest="iters", type=int, metavar="N", help="timed calls [20 to 200]")
    p.add_argument("--cache", choices=("cold", "warm", "both"), default="both", help="last-level cache [both]")
    p.add_argument("--flush-mb", type=int, default=512, metavar="N", help="size of the flush buffer [512]")
    p.add_argument("--graph", action="store_true", help="time through a captured GPU graph")
    p.add_argument("--profile", dest="profile", action="store_true", default=True, help=argparse.SUPPRESS)
    p.add_argument("--no-profile", dest="profile", action="store_false", help="no kernel names and durations")
    p.add_argument("--pause-ms", type=float, default=5.0, metavar="X", help="after long calls under the profiler [5]")
    p.add_argument("--backward", action="store_true", help="also time the gradient, where the operation has one")
    p.add_argument("--verify", action="store_true", help="compare the result with the CPU's in a wider type")
    p.add_argument("--import", dest="imports", action="append", default=[], metavar="MODULE", help="import it first")
    p.add_argument("--isolate", action="store_true", help="one process per entry")
    p.add_argument("--no-isolate", dest="isolate", action="store_false", help=argparse.SUPPRESS)
    p.add_argument("--dry-run", action="store_true", help="build the arguments, call nothing")
    p.add_argument("--max-gflop", type=float, metavar="X", help="build but do not call what takes more work")
    p.add_argument("--seed", type=int, default=0, metavar="N")
    p.add_argument("--stop-on-error", action="store_true")
    p.add_argument("--list", action="store_true", help="show the entries and stop")
    p.add_argument("--verbose", action="store_true", help="show kernels, schemas and assumptions")
    p.add_argument("--json", default="replay_results.json", metavar="FILE", help="results [%(default)s]")
    return p.parse_args(argv)


# ---------------------------------------------------------------- the machine


def device_name(device):
    if torch.device(device).type == "cpu":
        return "CPU: " + (platform.processor() or platform.machine())
    return torch.cuda.get_device_name(torch.device(device))


def driver():
    """Version of the GPU driver, if it can be found out."""
    tool = shutil.which("nvidia-smi")
    if tool:
        command = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.split("\n")[0].strip()
        except (OSError, subprocess.SubprocessError):
            pass
    return "CUDA %s" % torch.version.cuda if torch.version.cuda else str(getattr(torch.version, "hip", None))


# ---------------------------------------------------------------- one entry


def check_memory(entry, args):
    if torch.device(args.device).type == "cpu":
        return
    free = torch.cuda.mem_get_info(torch.device(args.device))[0]
    free += torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    needed = needed_bytes(entry)
    if needed > MEMORY_SHARE * free:
        raise Skip("Needs %.1f GB, %.1f GB free." % (needed / 1e9, free / 1e9))


def apply_settings(entry):
    """Switches of the framework that decide which kernel runs; the trace's kernels tell how they stood."""
    settings = entry.get("settings") or {}
    tf32 = bool(settings.get("allow_tf32", False))
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = bool(settings.get("cudnn_allow_tf32", True))
    torch.backends.cudnn.benchmark = bool(settings.get("cudnn_benchmark", False))


def measure(entry, call, clock, args, result):
    modes = [mode for mode in ("cold", "warm") if args.cache in (mode, "both")]
    estimate = clock.warm_up(call, max(args.warmup, 10) if args.iters is None else args.warmup)
    n = clock.iterations(args.iters, estimate)
    if not clock.gpu:
        result["warm_us"], result["method"] = clock.wall(call, n), "wall"
        return
    timed, result["method"] = call, "events"
    if args.graph:
        timed, result["method"] = Replayed(clock.graphed(call), call), "graph"
    for mode in modes:
        result[mode + "_us"] = clock.events(timed, n, mode == "cold")
    if args.profile:
        seen = {}
        try:
            seen = profiled(call, clock, modes, PROFILED_CALLS, args.pause_ms if estimate > LONG_US else 0.0)
        except (RuntimeError, AttributeError) as error:
            # Some systems do not let programs profile; the events' times are there.
            result["profile_reason"] = first_line(error)
        for mode, what in seen.items():
            result["profiler_us" if mode == "cold" or modes == ["warm"] else "profiler_warm_us"] = what["busy_us"]
            result.setdefault("kernels", what["kernels"])
    shortest = min(result[mode + "_us"]["median"] for mode in modes)
    if shortest < SHORT_US and not args.graph:
        result["method"] = "block"
        if "warm" in modes:
            result["warm_us"] = clock.blocks([call], n, shortest)
        if "cold" in modes:
            rotated = copies(entry, call, clock)
            result["cold_us"] = clock.blocks(rotated, n, shortest)
            result["method"] = "rotate"


def replay(entry, clock, args):
    """Result of one entry: section 10.4 of the format."""
    result = {"id": entry["id"], "op_name": entry["op_name"], "overload": None, "status": "ok", "reason": None}
    result["trace_us"] = entry["trace"]["kernel_time_us"]["mean"]
    result["count"] = entry["count"] or 1
    try:
        if entry["replayable"] == "no":
            raise Skip("; ".join(entry["assumptions"]) or "not replayable")
        check_memory(entry, args)
        apply_settings(entry)
        call = Call(entry, args.device, args.seed)
        result["overload"] = call.overload.name
        result["schema"] = str(call.overload.schema)
        result["assumptions"] = entry["assumptions"] + [a for a in call.assumptions if a not in entry["assumptions"]]
        if args.max_gflop is not None and (entry["trace"].get("flops") or 0) > args.max_gflop * 1e9:
            raise Skip("More than %g GFLOP." % args.max_gflop)
        if not args.dry_run:
            with torch.no_grad():
                if args.verify:
                    result["verified"] = verify(call)
                call()
                clock.synchronize()
                measure(entry, call, clock, args, result)
            if args.backward:
                backward(entry, call, clock, args, result)
            compare(entry, result, args)
    except Skip as skip:
        result.update(status="skipped", reason=str(skip))
    except (torch.cuda.OutOfMemoryError if hasattr(torch.cuda, "OutOfMemoryError") else MemoryError) as error:
        result.update(status="skipped", reason="out of memory: " + first_line(error))
    except NotImplementedError as error:
        result.update(status="skipped", reason="no kernel for this device: " + first_line(error))
    except Exception as error:  # noqa: BLE001 - one failing entry must not stop the others
        text = first_line(error)
        status = "skipped" if args.device == "cpu" and no_cpu_kernel(text) else "failed"
        result.update(status=status, reason=text)
    return result


def first_line(error):
    return "%s: %s" % (type(error).__name__, (str(error).split("\n") or [""])[0][:300])


def no_cpu_kernel(text):
    """Whether an error says that the operation has no CPU kernel for these types."""
    return bool(re.search(r"not implemented for|[Nn]ot compiled with|not available|CUDA|only supported|cuDNN", text))


def backward(entry, call, clock, args, result):
    """Times the gradient of the call."""
    try:
        gradient = backward_call(call)
    except Skip as skip:
        result["backward_reason"] = str(skip)
        return
    estimate = clock.warm_up(gradient, 10)
    n = clock.iterations(args.iters, estimate)
    result["backward_us"] = clock.events(gradient, n, args.cache != "warm") if clock.gpu else clock.wall(gradient, n)


# ---------------------------------------------------------------- comparison


def compare(entry, result, args):
    trace = entry["trace"]
    figure = result.get("profiler_us")
    us = figure["mean"] if figure else (result.get("cold_us") or result.get("warm_us"))["median"]
    result["replay_us"] = us
    result["ratio"] = us / result["trace_us"] if result["trace_us"] else None
    if us > 0:
        result["tflops"] = trace["flops"] / us / 1e6 if trace.get("flops") else None
        result["tb_s"] = trace["bytes"] / us / 1e6 if trace.get("bytes") else None
        roofline = trace.get("roofline_time_us")
        result["efficiency_percent"] = 100 * roofline / us if roofline else None
    result["verdict"] = verdict(entry, result, args)
    if result.get("kernels") and trace.get("kernels"):
        result["kernel_match"] = kernel_match(trace["kernels"], result["kernels"])
    wide = result.get("cold_us") or result.get("warm_us")
    result["unstable"] = wide["p10"] > 0 and wide["p90"] / wide["p10"] > 3


def verdict(entry, result, args):
    known = entry["trace"].get("device_name")
    if known is not None and known != device_name(args.device):
        return "other_device"
    if known is None and torch.device(args.device).type == "cpu":
        return "other_device"
    ratio, trace_us = result["ratio"], result["trace_us"]
    if ratio is None:
        return None
    if 0.9 <= ratio <= 1.1 or abs(result["replay_us"] - trace_us) <= 2:
        return "reproduced"
    sides = [result[key]["median"] for key in ("cold_us", "warm_us") if key in result]
    if 0.75 <= ratio <= 1.33 or (len(sides) == 2 and min(sides) <= trace_us <= max(sides)):
        return "close"
    return "faster_alone" if ratio < 1 else "slower_alone"


def kernel_match(traced, replayed):
    def named(kernels, cut):
        counts = collections.Counter()
        for kernel in kernels:
            counts[cut(kernel["name"])] += max(1, round(kernel["count_per_call"]))
        return counts

    for word, cut in (("same kernels", str), ("same kernel family", lambda name: re.split(r"[<(]", name)[0])):
        if named(traced, cut) == named(replayed, cut):
            return word
    return "different kernels"


# ---------------------------------------------------------------- report


def shapes(entry):
    """Arguments in one line."""
    texts = []
    for raw in entry["inputs"]:
        if raw["concrete"]:
            texts.append(raw["concrete"])
        elif raw["type"] == "TensorList":
            texts.append("[%s]" % ", ".join("x".join(map(str, dims)) for dims in raw["dims"]))
        elif raw["type"]:
            kind = re.sub(r"c10::|at::", "", raw["type"])
            texts.append("%s[%s]" % (kind, "x".join(map(str, raw["dims"]))))
        else:
            texts.append("-")
    return ", ".join(texts)


def shown(value, form="%.1f"):
    return "-" if value is None else form % value


def line(result):
    median = lambda key: (result.get(key) or {}).get("median")
    return "  %-34s %9s %9s %9s %6s %8s %7s %6s  %s" % (
        result["id"][-34:], shown(result["trace_us"]), shown(result.get("replay_us")), shown(median("warm_us")),
        shown(result.get("ratio"), "%.2f"), shown(result.get("tflops")), shown(result.get("tb_s"), "%.2f"),
        shown(result.get("efficiency_percent")), result.get("verdict") or "",
    )


def details(entry, result, verbose):
    print("      " + shapes(entry)[:200])
    if result.get("kernel_match") == "different kernels":
        print("      different kernels:")
    if result.get("kernel_match") == "different kernels" or (verbose and result.get("kernels")):
        for word, kernels in (("traced", entry["trace"].get("kernels")), ("replayed", result["kernels"])):
            for kernel in kernels or []:
                print("        %-8s %6.1f us  %s" % (word, kernel["mean_us"], kernel["name"][:150]))
    if result.get("backward_us"):
        print("      backward: %.1f us" % result["backward_us"]["median"])
    elif result.get("backward_reason"):
        print("      backward: " + result["backward_reason"])
    if result.get("profile_reason"):
        print("      no kernel times: " + result["profile_reason"])
    if result.get("verified"):
        print("      verify: " + result["verified"]["text"])
    if result.get("unstable"):
        print("      unstable: more than 3x between the 10th and the 90th percentile")
    if verbose:
        print("      schema: %s" % result.get("schema"))
        for text in result.get("assumptions") or []:
            print("      assumed: " + text)


def summary(results):
    count = collections.Counter(result["status"] for result in results)
    work = sum(result["replay_us"] * result["count"] for result in results if result.get("replay_us"))
    print("\n%d entries: %d run, %d skipped, %d failed; %.2f ms for all calls of the trace" % (
        len(results), count["ok"], count["skipped"], count["failed"], work / 1e3))


def isolated(entry, argv, args):
    """Runs one entry in a process of its own, so that a crash stays there."""
    out = "%s.%d.tmp" % (args.json, os.getpid())
    # The last word holds, however the first was shortened: a process that isolated again would never end.
    own = ["--no-isolate", "--id", entry["id"], "--json", out]
    command = [sys.executable, os.path.abspath(__file__)] + argv + own
    status = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
    try:
        with open(out) as file:
            return json.load(file)["entries"][0]
    except (OSError, IndexError, ValueError):
        reason = "the process of this entry ended with status %d" % status
        return {"id": entry["id"], "op_name": entry["op_name"], "status": "failed", "reason": reason, "count": 0}
    finally:
        if os.path.exists(out):
            os.remove(out)


def is_meant(name, text):
    """Whether a text chooses an entry. A number in it is a whole one: #1 is not #10."""
    return name.endswith(text) if re.search(r"#\d+$", text) else text in name


def chosen(args):
    with open(args.ir) as file:
        entries = json.load(file)
    entries = [e for e in entries if is_meant(e["id"], args.op) and (args.id is None or e["id"] == args.id)]
    return entries[: args.op_limit]


def main(argv=None):
    argv = sys.argv[1:] if argv is None else argv
    args = arguments(argv)
    try:
        entries = chosen(args)
    except (OSError, ValueError) as error:
        print("error: %s: %s" % (args.ir, error), file=sys.stderr)
        return 2
    if args.list:
        for entry in entries:
            us = entry["trace"]["kernel_time_us"]["mean"]
            print("%-40s %6s x %9.1f us  %s" % (entry["id"], entry["count"] or "-", us, shapes(entry)))
        return 0
    if torch is None:
        print("error: PyTorch is missing: there is no module torch for %s" % sys.executable, file=sys.stderr)
        print("help: install PyTorch, or run this with the python that has it", file=sys.stderr)
        return 2
    for module in sorted({module for entry in entries for module in entry["imports"]} | set(args.imports)):
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - a broken package may raise anything
            print("note: import %s: %s" % (module, first_line(error)), file=sys.stderr)
    head = {"device_name": device_name(args.device), "torch_version": torch.__version__, "driver": driver()}
    print("torch %(torch_version)s, driver %(driver)s, %(device_name)s" % head)
    print("  %-34s %9s %9s %9s %6s %8s %7s %6s  %s" % (
        "entry", "trace us", "replay us", "warm us", "ratio", "TFLOPS/s", "TB/s", "% peak", "verdict"))
    clock = None if args.isolate else Clock(args.device, args.flush_mb)
    results = []
    for entry in entries:
        result = isolated(entry, argv, args) if args.isolate else replay(entry, clock, args)
        results.append(result)
        if result["status"] == "ok":
            print(line(result))
            details(entry, result, args.verbose)
        else:
            print("  %-34s %s: %s" % (entry["id"][-34:], result["status"], result["reason"]))
        sys.stdout.flush()
        if result["status"] == "failed" and args.stop_on_error:
            break
    summary(results)
    with open(args.json, "w") as file:
        json.dump(dict(head, entries=results), file, indent=1)
        file.write("\n")
    return 1 if any(result["status"] == "failed" for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
