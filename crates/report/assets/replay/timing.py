"""Times calls: device events with a cold or a warm cache, GPU graphs, and the profiler."""

import bisect
import math
import re
import time
import warnings

import torch

from utils import RESET_EVERY, Call

# Copies of the inputs that short calls are rotated through.
MOST_COPIES = 64

# ---------------------------------------------------------------- timing


def statistics(times):
    """Median, mean, min, p10, p90, std, n of some microseconds."""
    times, n = sorted(times), len(times)
    mean = sum(times) / n
    at = lambda share: times[min(n - 1, int(share * n))]
    median = (times[(n - 1) // 2] + times[n // 2]) / 2
    std = math.sqrt(sum((t - mean) ** 2 for t in times) / (n - 1)) if n > 1 else 0.0
    return {"median": median, "mean": mean, "min": times[0], "p10": at(0.1), "p90": at(0.9), "std": std, "n": n}


class Clock:
    """Times calls on one device."""

    def __init__(self, device, flush_mb):
        self.device = torch.device(device)
        self.gpu = self.device.type != "cpu"
        self.buffer = None
        if self.gpu:
            self.buffer = torch.empty(flush_mb * 2 ** 20, dtype=torch.int8, device=self.device)

    def synchronize(self):
        if self.gpu:
            torch.cuda.synchronize(self.device)

    def flush(self):
        """Overwrites more memory than the last-level cache holds."""
        self.buffer.zero_()

    def warm_up(self, call, least):
        """Untimed calls, at least `least` and 50 ms of them; microseconds of one."""
        began, n = time.perf_counter(), 0
        while n < least or time.perf_counter() - began < 0.05:
            call()
            call.reset_if_due()
            n += 1
            if n % 8 == 0 or n >= least:
                self.synchronize()
        self.synchronize()
        return (time.perf_counter() - began) / n * 1e6

    def iterations(self, asked, estimate_us):
        return asked or max(20, min(200, int(200e3 / max(estimate_us, 1.0))))

    def wall(self, call, n):
        """Microseconds by the host's clock, for devices without events."""
        times = []
        for _ in range(n):
            began = time.perf_counter()
            call()
            times.append((time.perf_counter() - began) * 1e6)
            call.reset_if_due()
        return statistics(times)

    def events(self, call, n, cold):
        """Microseconds between two events around each call."""
        pairs = []
        for _ in range(n):
            if cold:
                self.flush()
            pair = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            pair[0].record()
            call()
            pair[1].record()
            pairs.append(pair)
            call.reset_if_due()
        self.synchronize()
        return statistics([start.elapsed_time(end) * 1e3 for start, end in pairs])

    def blocks(self, calls, n, per_call_us):
        """Microseconds of a short call: blocks of calls of 300 us and more between two events.

        In-place operations get fresh values between stretches of a block, outside what is timed.
        """
        k = max(len(calls), int(math.ceil(300.0 / max(per_call_us, 0.5))))
        writes = any(call.saved for call in calls)
        stretch = min(k, RESET_EVERY * len(calls)) if writes else k
        blocks = []
        for _ in range(max(5, n // k)):
            pairs = []
            for first in range(0, k, stretch):
                for call in calls:
                    call.reset()
                pair = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                pair[0].record()
                for i in range(first, min(k, first + stretch)):
                    calls[i % len(calls)]()
                pair[1].record()
                pairs.append(pair)
            blocks.append(pairs)
        self.synchronize()
        for call in calls:
            call.reset()
        return statistics([sum(start.elapsed_time(end) for start, end in pairs) * 1e3 / k for pairs in blocks])

    def graphed(self, call):
        """The call as a captured GPU graph."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        return graph


class Replayed:
    """A captured graph, called like a call."""

    def __init__(self, graph, call):
        self.graph, self.call = graph, call

    def __call__(self):
        self.graph.replay()

    def reset_if_due(self):
        self.call.reset_if_due()


def copies(entry, call, clock):
    """The call with its inputs at as many places as together exceed the cache, at most 64."""
    size = sum(tensor.numel() * tensor.element_size() for tensor in call.tensors_of()) or 1
    count = min(MOST_COPIES, max(1, -(-clock.buffer.numel() // (2 * size))))
    return [call] + [Call(entry, call.device, call.seed + i) for i in range(1, count)]


# ---------------------------------------------------------------- profiler


MARK = "jarvis_replay_"


def profiled(call, clock, modes, n, pause_ms=0.0):
    """GPU work of `n` calls by cache mode, as the profiler sees it: busy time of a call and its kernels.

    A pause after each call keeps long calls from running into the power limit, which they meet back to back and not
    among the other kernels of a model.
    """
    from torch.profiler import ProfilerActivity, profile, record_function

    # Newer versions remark on every run that they keep one cycle only: one is all there is.
    warnings.filterwarnings("ignore", message=".*Profiler clears events.*")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for mode in modes:
            for i in range(n):
                if mode == "cold":
                    clock.flush()
                with record_function("%s%s_%d" % (MARK, mode, i)):
                    call()
                call.reset_if_due()
                if pause_ms > 0:
                    clock.synchronize()
                    time.sleep(pause_ms / 1e3)
        clock.synchronize()
    by_mark = kernels_by_mark(profiler.profiler.kineto_results.events())
    result = {}
    for mode in modes:
        found = [by_mark.get("%s%s_%d" % (MARK, mode, i)) for i in range(n)]
        found = [kernels for kernels in found if kernels]
        if found:
            result[mode] = summed_up(found)
    return result


def nanoseconds(event):
    """Start and end of a profiler event; versions differ in the unit."""
    if hasattr(event, "start_ns"):
        start, duration = event.start_ns(), event.duration_ns()
    else:
        start, duration = event.start_us() * 1000, event.duration_us() * 1000
    return start, start + duration


def kernels_by_mark(events):
    """GPU events of each marked call: those launched while it ran on the host."""
    marks, launches, kernels = [], {}, []
    for event in events:
        on_gpu = "CPU" not in str(event.device_type())
        name = event.name()
        if name.startswith(MARK):
            if not on_gpu:
                marks.append(nanoseconds(event) + (name,))
        elif on_gpu:
            kernels.append((event.correlation_id(), name) + nanoseconds(event))
        elif re.match(r"(cuda|cu|hip|hsa)[A-Z_]", name):
            launches[event.correlation_id()] = nanoseconds(event)[0]
    marks.sort()
    starts = [start for start, _, _ in marks]
    found = {}
    for correlation, name, start, end in kernels:
        launched = launches.get(correlation)
        at = bisect.bisect_right(starts, launched) - 1 if launched is not None else -1
        if at >= 0 and launched <= marks[at][1]:
            found.setdefault(marks[at][2], []).append((start, end, name))
    return found


def summed_up(calls):
    """Busy time (union of intervals) and kernels of a typical call."""
    busy, names = [], {}
    for kernels in calls:
        covered, until = 0, 0
        for start, end, name in sorted(kernels):
            covered += max(0, end - max(start, until))
            until = max(until, end)
            names.setdefault(name, []).append((end - start) / 1e3)
        busy.append(covered / 1e3)
    listed = [
        {"name": name, "count_per_call": len(times) / len(calls), "mean_us": sum(times) / len(times)}
        for name, times in sorted(names.items(), key=lambda item: -sum(item[1]))
    ]
    return {"busy_us": statistics(busy), "kernels": listed}
