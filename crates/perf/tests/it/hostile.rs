//! Broken calls: whatever a trace may hold, a model answers or fails, and never panics.

use std::sync::Arc;

use jarvis_perf::call::{Dims, InputLists, OpCall};
use jarvis_perf::models::{evaluate, evaluate_backward};
use jarvis_perf::ops;
use jarvis_perf::parity::Quirks;

use crate::op_cases;

/// A small generator: the same calls in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.roll(items.len())]
    }

    fn shape(&mut self) -> Vec<i64> {
        (0..self.roll(6)).map(|_| self.pick(SIZES)).collect()
    }

    fn dims(&mut self) -> Dims {
        if self.roll(8) == 0 {
            return Dims::List((0..self.roll(4)).map(|_| self.shape()).collect());
        }
        Dims::Shape(self.shape())
    }

    /// Sometimes no list, mostly one of up to `slots`.
    fn list<T>(&mut self, slots: usize, mut item: impl FnMut(&mut Self) -> T) -> Option<Vec<T>> {
        if self.roll(20) == 0 {
            return None;
        }
        let length = if self.roll(4) == 0 { self.roll(slots) } else { slots };
        Some((0..length).map(|_| item(self)).collect())
    }
}

const SIZES: &[i64] = &[0, 1, 2, 3, 8, 64, 64, 1024, -1, i64::MAX, i64::MIN];

const TYPES: &[&str] = &[
    "float",
    "c10::BFloat16",
    "c10::Float8_e4m3fn",
    "c10::Float4_e2m1fn_x2",
    "long int",
    "bool",
    "Scalar",
    "TensorList",
    "",
    "unsigned char",
    "c10::complex<float>",
    "mystery",
];

const SCALARS: &[&str] = &[
    "",
    "True",
    "False",
    "0",
    "1",
    "-1",
    "2",
    "9223372036854775807",
    "-9223372036854775808",
    "0.",
    "1e308",
    "nan",
    "inf",
    "[]",
    "[0]",
    "[1, 1]",
    "[2, 2]",
    "[-1]",
    "[0, 0, 0]",
    "[True, True, True]",
    "[False, True]",
    "[9223372036854775807, 2]",
    "[[1], 2]",
    "None",
    "cuda:0",
    "[2., 1.5]",
    "(",
    "é",
];

const KERNELS: &[&str] = &[
    "nvjet",
    "nvjet_",
    "nvjet_é",
    "Cijk_Alik_Bljk_MTx0x",
    "CijkéC_Aijk_Bijk",
    "sm90_xmma_gemm_tn_n_tilesizex",
    "cutlass_gemm__tn_align",
    "_matmul_ogs_TTT_axb_99999999999999999999x1x1x1",
    "OpaqueType<0>",
    "OpaqueType<99999999999999999999>",
    "Functor<float, (at::native::X)1, <<>>",
    "lambda(",
    "void at::native::é",
    "Memcpy HtoD",
    "DeviceRadixSort FillFunctor",
];

/// Evaluates a call in every way; in how many fidelities it could be read.
fn readable(name: &str, inputs: &InputLists, forward: &InputLists, kernels: &[&str]) -> usize {
    let forward = Some(forward);
    let call = OpCall { name, inputs, kernels, launches: &[], sequence: None, annotation: None, extra: &[], forward };
    let both = [Quirks::NONE, Quirks::REFERENCE];
    let ok = both.iter().filter(|quirks| {
        let _ = evaluate_backward(&call, quirks);
        evaluate(&call, quirks).cost.is_ok()
    });
    ok.count()
}

/// Calls that are right but for one or a few entries.
#[test]
fn no_spoilt_call_makes_a_model_panic() {
    let mut dice = Dice(11);
    let mut finite = 0;
    for case in op_cases::cases() {
        let kernels: Vec<&str> = case.kernel.as_deref().into_iter().collect();
        for _ in 0..60 {
            let mut inputs = case.inputs.clone();
            for _ in 0..=dice.roll(4) {
                spoil(&mut inputs, &mut dice);
            }
            finite += readable(&case.names[0], &inputs, &inputs, &kernels);
        }
    }
    assert!(finite > 10_000, "only {finite} calls could be read");
}

fn spoil(inputs: &mut InputLists, dice: &mut Dice) {
    let lists = if dice.roll(4) == 0 { &mut inputs.strides } else { &mut inputs.dims };
    if let Some(list) = lists.as_mut().filter(|list| !list.is_empty()) {
        let slot = dice.roll(list.len());
        if let Dims::Shape(shape) = &mut Arc::make_mut(list)[slot]
            && !shape.is_empty()
        {
            let at = dice.roll(shape.len());
            shape[at] = dice.pick(SIZES);
        }
    }
    if let Some(concrete) = inputs.concrete.as_mut().filter(|c| !c.is_empty() && dice.roll(3) == 0) {
        let at = dice.roll(concrete.len());
        dice.pick(SCALARS).clone_into(&mut Arc::make_mut(concrete)[at]);
    }
}

#[test]
fn no_call_makes_a_model_panic() {
    let mut dice = Dice(7);
    let mut finite = 0;
    for entry in ops::all() {
        for _ in 0..150 {
            let slots = 1 + dice.roll(26);
            let mut lists = || InputLists {
                dims: dice.list(slots, Dice::dims).map(Into::into),
                types: dice.list(slots, |d| d.pick(TYPES).to_owned()).map(Into::into),
                strides: dice.list(slots, Dice::dims).map(Into::into),
                concrete: dice.list(slots, |d| d.pick(SCALARS).to_owned()).map(Into::into),
            };
            let (inputs, forward) = (lists(), lists());
            let kernels: Vec<&str> = (0..dice.roll(3)).map(|_| dice.pick(KERNELS)).collect();
            finite += readable(entry.name, &inputs, &forward, &kernels);
        }
    }
    // Enough of them are readable, or nothing was tested.
    assert!(finite > 5_000, "only {finite} calls could be read");
}
