//! Reductions.

use super::OpEntry;
use crate::models::Reader;
use crate::models::reduce::{cumulative, extremum, norm, pair, plain, position, prod, sum, truth, vector_norm};

const fn reference(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::reference(name, "reduce", "Reduce", reader)
}

const fn extended(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::extended(name, "reduce", "Reduce", reader)
}

#[rustfmt::skip]
pub(super) const OPS: &[OpEntry] = &[
    extended("aten::all",                        truth),
    reference("aten::amax",                      plain),
    reference("aten::amin",                      plain),
    extended("aten::any",                        truth),
    extended("aten::argmax",                     position),
    extended("aten::argmin",                     position),
    reference("aten::cumprod",                   cumulative),
    reference("aten::cumsum",                    cumulative),
    reference("aten::linalg_norm",               norm),
    extended("aten::linalg_vector_norm",         vector_norm),
    reference("aten::logsumexp",                 plain),
    reference("aten::max",                       extremum),
    reference("aten::mean",                      sum),
    reference("aten::min",                       extremum),
    reference("aten::norm",                      norm),
    extended("aten::prod",                       prod),
    reference("aten::std",                       plain),
    extended("aten::std_mean",                   pair),
    reference("aten::sum",                       sum),
    reference("aten::var",                       plain),
    extended("aten::var_mean",                   pair),
];
