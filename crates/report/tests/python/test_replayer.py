"""Tests of the replayer on a CPU: `PYTHONPATH=assets/replay python3 -m unittest test_replayer` in this folder."""

import contextlib
import io
import json
import os
import tempfile
import unittest
from unittest import mock

import torch

import batched_replay
import timing
import utils
import verify


def tensor(*dims, kind="float", strides=None):
    strides = utils.contiguous_strides(list(dims)) if strides is None else strides
    return {"type": kind, "dims": list(dims), "strides": strides, "concrete": ""}


def number(text):
    kind = "ScalarList" if text.startswith("[") else "Scalar"
    return {"type": kind, "dims": [], "strides": [], "concrete": text}


NONE = {"type": "", "dims": [], "strides": [], "concrete": ""}


def tensors(*shapes):
    strides = [utils.contiguous_strides(list(shape)) for shape in shapes]
    return {"type": "TensorList", "dims": [list(shape) for shape in shapes], "strides": strides, "concrete": ""}


def entry(op, *inputs, **more):
    result = {
        "ir_version": 1, "id": op + "#0", "op_name": op, "overload": None, "schema": None, "replay_ir": None,
        "inputs": [dict(raw, index=index) for index, raw in enumerate(inputs)], "count": 3, "imports": [],
        "replayable": "yes", "assumptions": [],
        "trace": {"platform": "H200", "device_name": "NVIDIA H200", "kernel_time_us": {"mean": 10.0, "sum": 30.0},
                  "kernels": [], "roofline_time_us": 5.0, "flops": 1000, "bytes": 1000},
    }
    result.update(more)
    return result


def hinted(name, raw, **value):
    """The description of a tensor argument, as jarvis writes it."""
    described = {"shape": raw["dims"], "dtype": raw["type"], "strides": raw["strides"], "device": "gpu"}
    described.update(value)
    return {"arg_name": name, "arg_type": "Tensor", "kind": "tensor", "value": described, "assumed": False}


def build(op, *inputs, **more):
    return utils.Call(entry(op, *inputs, **more), "cpu", 0)


def overload(op, *inputs):
    return build(op, *inputs).overload.name


class Overloads(unittest.TestCase):
    def test_the_recorded_inputs_decide(self):
        x, one = tensor(4, 4), number("1")
        self.assertEqual(overload("aten::div", x, number("2.")), "Scalar")
        self.assertEqual(overload("aten::div", x, x), "Tensor")
        self.assertEqual(overload("aten::div", x, tensor(kind="double")), "Tensor")
        self.assertEqual(overload("aten::add", x, x, one), "Tensor")
        self.assertEqual(overload("aten::addmm", tensor(4), x, x, one, one), "default")
        self.assertEqual(overload("aten::addmm", tensor(4), x, x, one, one, x), "out")
        self.assertEqual(overload("aten::arange", one, NONE, NONE, NONE, NONE), "default")
        self.assertEqual(overload("aten::arange", one, number("5"), NONE, NONE, NONE, NONE), "start")
        out = tensor(0, kind="long int")
        self.assertEqual(overload("aten::arange", number("0"), number("5"), one, out), "start_out")
        self.assertEqual(overload("aten::_softmax", x, number("-1"), number("False")), "default")

    def test_enum_arguments_are_their_numbers(self):
        call = build("aten::_to_copy", tensor(4), number("15"), NONE, NONE, NONE, number("False"), NONE)
        self.assertEqual(call().dtype, torch.bfloat16)
        call = build("aten::sum", tensor(4, 3), number("[0]"), number("True"), number("7"))
        self.assertEqual((call().dtype, call().shape), (torch.float64, (1, 3)))

    def test_what_does_not_fit_says_so(self):
        with self.assertRaisesRegex(utils.Skip, "no matching overload.*aten::mm"):
            build("aten::mm", tensor(2, 2))
        with self.assertRaisesRegex(utils.Skip, "op nothing::here is not registered"):
            build("nothing::here", tensor(2))
        with self.assertRaisesRegex(utils.Skip, "unknown element type c10::qint8"):
            build("aten::neg", tensor(2, kind="c10::qint8"))

    def test_a_named_overload_is_taken_if_it_fits(self):
        x = tensor(4, 4)
        named = {"list_pos_args": [hinted("self", x), hinted("other", x)], "list_kwargs": []}
        self.assertEqual(build("aten::mul", x, x, overload="Tensor", replay_ir=named).overload.name, "Tensor")
        other = {"list_pos_args": [hinted("a", x), hinted("b", x)], "list_kwargs": []}
        self.assertEqual(build("aten::mul", x, x, overload="Scalar", replay_ir=other).overload.name, "Tensor")


class Values(unittest.TestCase):
    def test_layouts_are_the_recorded_ones(self):
        cases = [
            ([8, 4], [1, 8]),  # transposed
            ([8, 4], [0, 1]),  # expanded
            ([2, 3, 5, 7], [105, 1, 21, 3]),  # channels last
            ([6, 4], [10, 1]),  # a slice of longer rows
            ([], []), ([0, 3], [3, 1]), ([1], [1]),
        ]
        for shape, strides in cases:
            made = build("aten::neg", tensor(*shape, strides=strides)).args[0]
            self.assertEqual((list(made.shape), list(made.stride())), (shape, strides))

    def test_storage_is_no_larger_than_needed(self):
        self.assertEqual(utils.storage_elements([6, 4], [10, 1]), 54)
        self.assertEqual(utils.storage_elements([8, 4], [0, 1]), 4)
        self.assertEqual(utils.storage_elements([], []), 1)
        self.assertEqual(utils.storage_elements([5, 0], [1, 1]), 0)

    def test_values_follow_the_description(self):
        index = tensor(100, kind="long int")
        ir = {"list_pos_args": [hinted("weight", tensor(50, 8), init="normal"),
                                hinted("indices", index, init="index", range=[0, 50])], "list_kwargs": []}
        rest = number("-1"), number("False"), number("False")
        call = build("aten::embedding", tensor(50, 8), index, *rest, replay_ir=ir)
        made = call.args[1]
        self.assertTrue(0 <= int(made.min()) and int(made.max()) < 50 and made.unique().numel() > 10)
        self.assertEqual(call().shape, (100, 8))
        make = utils.Builder("cpu", 0)
        value = {"shape": [5], "dtype": "int", "strides": [1], "init": "offsets", "range": [0, 64]}
        self.assertEqual(make.tensor("x", value).tolist(), [0, 16, 32, 48, 64])
        value = {"shape": [4], "dtype": "int", "strides": [1], "init": "offsets", "range": [1024, 4096]}
        ends = make.tensor("x", value).tolist()
        self.assertTrue(ends == sorted(ends) and ends[-1] == 4096 and all(end % 16 == 0 for end in ends))
        self.assertTrue(900 < ends[0] < 1100)
        value = {"shape": [1000], "dtype": "c10::Half", "strides": [1], "init": "positive"}
        self.assertTrue(bool((make.tensor("x", value) > 0.09).all()))
        for kind in ("c10::BFloat16", "double", "c10::complex<float>", "bool", "unsigned char", "signed char"):
            init = "bool" if kind == "bool" else "uniform" if "char" in kind else "normal"
            value = {"shape": [16, 2], "dtype": kind, "strides": [2, 1], "init": init}
            self.assertEqual(make.tensor("x", value).shape, (16, 2))

    def test_small_floats_are_made_by_a_cast_or_refused(self):
        raw = tensor(16, 16, kind="c10::Float8_e4m3fn")
        if hasattr(torch, "float8_e4m3fn"):
            made = build("aten::clone", raw, NONE).args[0]
            self.assertTrue(bool(torch.isfinite(made.float()).all()))
        else:
            with self.assertRaisesRegex(utils.Skip, "this PyTorch has no float8_e4m3fn"):
                build("aten::clone", raw, NONE)

    def test_unknown_operations_get_safe_values_or_none(self):
        # No description: as for an operation that jarvis does not know.
        call = build("aten::mul", tensor(4, 4), tensor(kind="double"))
        self.assertEqual((call.args[1].device.type, float(call.args[1])), ("cpu", 1.0))
        self.assertEqual(build("aten::neg", tensor(4, kind="int")).args[0].tolist(), [0, 0, 0, 0])
        with self.assertRaisesRegex(utils.Skip, "Index argument index: no safe values known"):
            build("aten::index_select", tensor(4, 4), number("0"), tensor(2, kind="long int"))
        self.assertTrue(utils.OFFSETS.search("cu_seqlens_q") and utils.OFFSETS.search("kv_indptr"))
        self.assertTrue(utils.ADDRESSES.search("block_tables") and utils.ADDRESSES.search("seq_lens"))
        self.assertFalse(utils.ADDRESSES.search("input") or utils.ADDRESSES.search("indent"))

    def test_only_an_operand_can_be_a_number_of_the_program(self):
        def guessed(op, at, *inputs):
            recorded = [utils.Recorded(raw) for raw in inputs]
            args = utils.resolve(entry(op, *inputs), recorded).args
            return utils.guess(args[at], recorded[at], recorded, [arg.name for arg in args])[0]

        whole, double, x = tensor(kind="long int"), tensor(kind="double"), tensor(1, 64)
        for op, at, inputs in [
            ("aten::sub", 0, (double, x, ONE)), ("aten::add_", 1, (x, double, ONE)), ("aten::pow", 1, (x, double)),
            ("aten::masked_fill", 2, (x, tensor(1, 64, kind="bool"), double)),
            ("aten::where", 2, (tensor(1, 64, kind="bool"), x, double)),
        ]:
            self.assertEqual(guessed(op, at, *inputs)["device"], "cpu", op)
        for op, at, inputs in [
            ("aten::add_", 0, (double, tensor(), ONE)), ("aten::copy_", 1, (tensor(), whole, NO)),
            ("aten::mse_loss_backward", 0, (double, tensor(8, kind="double"), tensor(8, kind="double"), ONE)),
        ]:
            self.assertEqual(guessed(op, at, *inputs)["device"], "gpu", op)
        with self.assertRaisesRegex(utils.Skip, "Index argument index: no safe values known"):
            build("aten::index_select", x, number("0"), whole)

    def test_a_text_is_never_taken_without_a_word(self):
        x = tensor(4)
        none = "string argument rounding_mode is not recorded; none used"
        self.assertEqual(build("aten::div", x, x, NONE).assumptions, [none])

        def divided(kind, value):
            mode = {"arg_name": "rounding_mode", "arg_type": "str?", "kind": kind, "value": value, "assumed": True}
            ir = {"list_pos_args": [hinted("self", x), hinted("other", x)], "list_kwargs": [mode]}
            return build("aten::div", x, x, NONE, replay_ir=ir, overload="Tensor_mode")

        floor = divided("str", "floor")
        self.assertEqual((floor.kwargs["rounding_mode"], floor.assumptions), ("floor", []))
        with torch.no_grad():
            self.assertTrue(torch.equal(floor(), floor().floor()))
        plain = divided("none", None)
        self.assertEqual((plain.kwargs["rounding_mode"], plain.assumptions), (None, [none]))

    def test_a_range_is_made_as_long_as_it_has_to_be(self):
        call = build("aten::arange", number("0"), number("5"), ONE, tensor(0, kind="long int"))
        for _ in range(2):
            self.assertEqual(call().tolist(), [0, 1, 2, 3, 4])

    def test_missing_arguments(self):
        call = build("aten::gelu", tensor(4), NONE)
        self.assertIn("string argument approximate is not recorded; default 'none' used", call.assumptions)
        call = build("aten::convolution", tensor(1, 2, 4, 4), tensor(3, 2, 1, 1), NONE, *map(
            number, ("[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1")))
        self.assertIsNone(call.args[2])
        with self.assertRaisesRegex(utils.Skip, "elements overlap"):
            build("aten::add_", tensor(4, 4, strides=[0, 1]), tensor(4, 4), number("1"))

    def test_written_arguments_get_fresh_values(self):
        call = build("aten::mul_", tensor(4), number("0.5"))
        before = call.args[0].clone()
        for _ in range(utils.RESET_EVERY):
            call()
            call.reset_if_due()
        self.assertTrue(torch.equal(call.args[0], before))

    def test_mixed_precision_is_switched_on(self):
        call = build("aten::mm", tensor(4, 8), tensor(8, 2), settings={"autocast": "float16"})
        self.assertEqual(call().dtype, torch.bfloat16)

    def test_numbers_are_read_as_written(self):
        texts = {"True": True, "15": 15, "-1": -1, "0.": 0.0, "1e-05": 1e-05, "-inf": float("-inf"), "[1, 1]": [1, 1],
                 "[]": [], "(2,2)": [2, 2], "[True, False]": [True, False], "cuda:0": None}
        for text, value in texts.items():
            self.assertEqual(utils.parse(text), value, text)


# Operation, inputs: what every installation of PyTorch can do on a CPU.
F, B, ONE, NO, YES = tensor, "c10::BFloat16", number("1"), number("False"), number("True")
OPERATIONS = [
    ("aten::mm", F(8, 4), F(4, 6)),
    ("aten::addmm", F(6), F(8, 4), F(4, 6), ONE, ONE),
    ("aten::bmm", F(2, 8, 4), F(2, 4, 6)),
    ("aten::baddbmm", F(2, 8, 6), F(2, 8, 4), F(2, 4, 6), ONE, ONE),
    ("aten::convolution", F(1, 2, 8, 8), F(3, 2, 3, 3), F(3), number("[1, 1]"), number("[1, 1]"), number("[1, 1]"), NO,
     number("[0, 0]"), ONE),
    ("aten::convolution_backward", F(1, 3, 8, 8), F(1, 2, 8, 8), F(3, 2, 3, 3), number("[3]"), number("[1, 1]"),
     number("[1, 1]"), number("[1, 1]"), NO, number("[0, 0]"), ONE, number("[True, True, False]")),
    ("aten::add", F(4, 4), F(4), ONE),
    ("aten::mul", F(4, 4, kind=B), F(4, 4, kind=B)),
    ("aten::copy_", F(4, 4), F(4, 4, kind=B), NO),
    ("aten::fill_", F(4, 4), number("1.")),
    ("aten::mean", F(4, 4), number("[-1]"), YES, NONE),
    ("aten::sum", F(4, 4), NONE),
    ("aten::_softmax", F(4, 4), number("-1"), NO),
    ("aten::layer_norm", F(4, 8), number("[8]"), F(8), F(8), number("1e-05"), YES),
    ("aten::native_batch_norm", F(2, 4, 8, 8), F(4), F(4), NONE, NONE, YES, number("0.1"), number("1e-05")),
    ("aten::cat", tensors((4, 4), (2, 4)), number("0")),
    ("aten::gelu", F(4, 4), NONE),
    ("aten::max_pool2d_with_indices", F(1, 2, 8, 8), number("[2, 2]"), number("[]"), number("[0, 0]"),
     number("[1, 1]"), NO),
    ("aten::masked_fill_", F(4, 4), F(4, 4, kind="bool"), number("-inf")),
    ("aten::clamp_min_", F(4, 4), number("0")),
    ("aten::normal_", F(4, 4), number("0."), number("1."), NONE),
]


class Operations(unittest.TestCase):
    def test_common_operations_run_and_agree_with_themselves(self):
        for case in OPERATIONS:
            with self.subTest(case[0]), torch.no_grad():
                call = build(*case)
                self.assertTrue(verify.flat(call()))
                checked = verify.verify(call)
                self.assertIn(checked["ok"], (True, None), checked["text"])

    def test_gradients(self):
        gradient = verify.backward_call(build("aten::mm", F(8, 4), F(4, 6)))
        self.assertEqual([tuple(g.shape) for g in gradient()], [(8, 4), (4, 6)])
        with self.assertRaises(utils.Skip):
            verify.backward_call(build("aten::mul_", F(4), number("2.")))
        with self.assertRaises(utils.Skip):
            verify.backward_call(build("aten::gt", F(4), number("2.")))

    def test_a_wrong_result_is_seen(self):
        call = build("aten::neg", F(64))
        right = call.overload.call
        calls = []

        class Wrong:
            def __call__(self, *args):
                calls.append(args)
                return right(*args) * (1.5 if len(calls) > 1 else 1)

        call.overload.call = Wrong()
        self.assertFalse(verify.verify(call)["ok"])

    def test_what_is_not_finite_must_be_so_on_both_sides(self):
        def verified(on_cpu, here):
            call = build("aten::neg", F(4))
            results = iter([torch.tensor(on_cpu), torch.tensor(here)])
            call.overload.call = lambda *args: next(results)
            return verify.verify(call)

        nan, inf = float("nan"), float("inf")
        numbers = [1.0, 2.0, 3.0, 4.0]
        for wrong in ([nan] * 4, [inf] * 4, [1.0, nan, 3.0, 4.0]):
            self.assertFalse(verified(numbers, wrong)["ok"])
            self.assertIn("DIFFERS", verified(numbers, wrong)["text"])
            self.assertFalse(verified(wrong, numbers)["ok"])
            self.assertTrue(verified(wrong, wrong)["ok"])


    def test_pooling_goes_back_to_where_it_came_from(self):
        index = F(1, 2, 4, 4, kind="long int")
        window = [number(text) for text in ("[2, 2]", "[2, 2]", "[0, 0]", "[1, 1]", "False")]
        names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
        args = [hinted("grad_output", F(1, 2, 4, 4)), hinted("self", F(1, 2, 8, 8))]
        args += [{"arg_name": name, "kind": "int_list", "value": None} for name in names]
        args.append(hinted("indices", index, init="index", range=[0, 64]))
        ir = {"list_pos_args": args, "list_kwargs": []}
        pool = "aten::max_pool2d_with_indices_backward"
        call = build(pool, F(1, 2, 4, 4), F(1, 2, 8, 8), *window, index, replay_ir=ir)
        self.assertTrue(int(call.args[-1][0, 0, 0, 0]) in (0, 1, 8, 9))
        self.assertEqual(call().shape, (1, 2, 8, 8))


class Event:
    """A profiler event."""

    def __init__(self, name, start, duration, gpu=False, correlation=0):
        self.what = (name, start, duration, "DeviceType.CUDA" if gpu else "DeviceType.CPU", correlation)

    name = lambda self: self.what[0]
    start_ns = lambda self: self.what[1]
    duration_ns = lambda self: self.what[2]
    device_type = lambda self: self.what[3]
    correlation_id = lambda self: self.what[4]


class Timing(unittest.TestCase):
    def test_statistics(self):
        stats = timing.statistics([3.0, 1.0, 2.0, 4.0])
        self.assertEqual((stats["median"], stats["mean"], stats["min"], stats["n"]), (2.5, 2.5, 1.0, 4))
        self.assertEqual(timing.statistics([1.0])["std"], 0.0)

    def test_blocks_give_written_arguments_fresh_values(self):
        class Stamp:
            def __init__(self, **_):
                pass

            record = lambda self: None
            elapsed_time = lambda self, end: 0.3

        class Counting:
            """A call that counts how often it saw its own output again."""

            def __init__(self, saved):
                self.saved, self.since, self.most = saved, 0, 0

            def __call__(self):
                self.since += 1
                self.most = max(self.most, self.since)

            def reset(self):
                self.since = 0

        clock = timing.Clock("cpu", 1)
        real, torch.cuda.Event = torch.cuda.Event, Stamp
        try:
            for number_of_copies in (1, 3):
                for per_call_us in (1, 3, 10, 25):
                    calls = [Counting([1]) for _ in range(number_of_copies)]
                    clock.blocks(calls, 200, per_call_us)
                    self.assertTrue(all(0 < call.most <= utils.RESET_EVERY for call in calls))
            # What writes nothing is timed in one stretch.
            only_reads = Counting([])
            clock.blocks([only_reads], 200, 3)
            self.assertEqual(only_reads.most, 100)
        finally:
            torch.cuda.Event = real

    def test_kernels_belong_to_the_call_that_launched_them(self):
        # host:  [cold_0 .. L1 L2 ..]  flush L3  [cold_1 .. L4 ..]
        # gpu:              1111    222(overlaps)  3333      444
        mark = timing.MARK
        events = [
            Event(mark + "cold_0", 0, 100), Event(mark + "cold_1", 200, 100),
            Event("cudaLaunchKernel", 10, 5, correlation=1), Event("cuLaunchKernelEx", 20, 5, correlation=2),
            Event("cudaMemsetAsync", 150, 5, correlation=3), Event("cudaLaunchKernel", 210, 5, correlation=4),
            Event("gemm", 1000, 4000, True, 1), Event("reduce", 3000, 4000, True, 2),
            Event("Memset (Device)", 8000, 9000, True, 3), Event("gemm", 20000, 3000, True, 4),
            Event(mark + "cold_0", 1000, 6000, True, 0),
        ]
        found = timing.kernels_by_mark(events)
        self.assertEqual([k[2] for k in found[mark + "cold_0"]], ["gemm", "reduce"])
        self.assertEqual([k[2] for k in found[mark + "cold_1"]], ["gemm"])
        summed = timing.summed_up([found[mark + "cold_0"], found[mark + "cold_1"]])
        self.assertEqual(summed["busy_us"]["mean"], (6.0 + 3.0) / 2)
        self.assertEqual(summed["kernels"][0], {"name": "gemm", "count_per_call": 1.0, "mean_us": 3.5})

    def test_verdicts(self):
        args = batched_replay.arguments(["--device", "cpu"])
        known = entry("aten::mm", F(4, 4), F(4, 4))
        known["trace"]["device_name"] = batched_replay.device_name("cpu")
        cases = [(100, 105, "reproduced"), (3, 5, "reproduced"), (100, 130, "close"), (100, 60, "faster_alone"),
                 (100, 150, "slower_alone")]
        for traced, replayed, word in cases:
            result = {"trace_us": traced, "replay_us": replayed, "ratio": replayed / traced}
            self.assertEqual(batched_replay.verdict(known, result, args), word)
        between = {"trace_us": 100, "replay_us": 150, "ratio": 1.5}
        between.update(cold_us={"median": 150}, warm_us={"median": 90})
        self.assertEqual(batched_replay.verdict(known, between, args), "close")
        self.assertEqual(batched_replay.verdict(entry("aten::mm"), between, args), "other_device")

    def test_kernels_are_compared_as_multisets(self):
        one = lambda name, n=1: {"name": name, "count_per_call": n, "mean_us": 1.0}
        match = batched_replay.kernel_match
        self.assertEqual(match([one("a"), one("b")], [one("b"), one("a")]), "same kernels")
        self.assertEqual(match([one("f<int>(x)")], [one("f<float>(x)")]), "same kernel family")
        self.assertEqual(match([one("a", 2)], [one("a")]), "different kernels")


class CommandLine(unittest.TestCase):
    def run_with(self, entries, *options):
        with tempfile.TemporaryDirectory() as folder:
            ir, out = os.path.join(folder, "ir.json"), os.path.join(folder, "out.json")
            with open(ir, "w") as file:
                json.dump(entries, file)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                fixed = [ir, "--device", "cpu", "--json", out, "--repeat", "2", "--warmup", "1"]
                status = batched_replay.main(fixed + list(options))
            results = None
            if os.path.exists(out):
                with open(out) as file:
                    results = json.load(file)
            return status, printed.getvalue(), results

    def test_one_bad_entry_does_not_stop_the_others(self):
        good, other = entry("aten::mm", F(8, 4), F(4, 6)), entry("nothing::here", F(4))
        broken = entry("aten::mm", F(8, 4), F(5, 6))
        status, printed, results = self.run_with([other, broken, good], "--verify", "--backward", "--verbose")
        self.assertEqual(status, 1)
        self.assertEqual([e["status"] for e in results["entries"]], ["skipped", "failed", "ok"])
        self.assertIn("3 entries: 1 run, 1 skipped, 1 failed", printed)
        self.assertIn("torch " + torch.__version__, printed)
        ran = results["entries"][2]
        self.assertTrue(ran["verified"]["ok"] and ran["backward_us"]["median"] > 0 and ran["method"] == "wall")
        self.assertEqual(ran["verdict"], "other_device")
        self.assertEqual(self.run_with([broken, good], "--stop-on-error")[2]["entries"][0]["status"], "failed")

    def test_skips_are_no_failures(self):
        missing = entry("nothing::here", F(4), imports=["no_such_module_here"])
        status, printed, _ = self.run_with([missing])
        self.assertEqual(status, 0)
        self.assertIn("import no_such_module_here", printed)
        heavy = entry("aten::mm", F(8, 4), F(4, 6))
        heavy["trace"]["flops"] = 10 ** 12
        _, _, results = self.run_with([heavy], "--max-gflop", "1")
        self.assertEqual(results["entries"][0]["reason"], "More than 1 GFLOP.")

    def test_lists_filters_and_wrong_usage(self):
        both = [entry("aten::mm", F(8, 4), F(4, 6)), entry("aten::neg", F(4), count=None)]
        status, printed, results = self.run_with(both, "--list")
        self.assertEqual((status, results), (0, None))
        self.assertIn("float[8x4], float[4x6]", printed)
        self.assertEqual(len(self.run_with(both, "--op", "neg")[2]["entries"]), 1)
        self.assertEqual(len(self.run_with(both, "--op-limit", "1")[2]["entries"]), 1)
        many = [entry("aten::neg", F(4), id="aten::neg#%d" % n) for n in range(12)]
        for text, meant in [("#1", [1]), ("neg#11", [11]), ("#", range(12)), ("neg", range(12))]:
            found = self.run_with(many, "--op", text, "--dry-run")[2]["entries"]
            self.assertEqual([e["id"] for e in found], ["aten::neg#%d" % n for n in meant])
        self.assertEqual(len(self.run_with(both, "--dry-run")[2]["entries"]), 2)
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(batched_replay.main(["/nowhere/ir.json"]), 2)

    def test_isolated_entries_run_in_their_own_process(self):
        both = [entry("aten::neg", F(4)), entry("aten::exp", F(4))]
        status, _, results = self.run_with(both, "--isolate")
        self.assertEqual((status, [e["status"] for e in results["entries"]]), (0, ["ok", "ok"]))

    def test_isolated_entries_are_not_isolated_again(self):
        for word in ("--isolate", "--isol", "--iso"):
            argv = [word, "--op", "neg"]
            with mock.patch("batched_replay.subprocess.run") as started:
                started.return_value.returncode = 0
                batched_replay.isolated(entry("aten::neg", F(4)), argv, batched_replay.arguments(argv))
            inner = batched_replay.arguments(started.call_args[0][0][2:])
            self.assertEqual((inner.isolate, inner.id, inner.op), (False, "aten::neg#0", "neg"))


if __name__ == "__main__":
    unittest.main()
