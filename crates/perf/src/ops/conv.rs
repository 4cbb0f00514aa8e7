//! Convolutions.

use super::OpEntry;
use crate::models::Reader;
use crate::models::conv::{conv_bias, conv_bias_backward, convolution, convolution_backward};

const fn forward(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::reference(name, "CONV_fwd", "CONV", reader).backward("CONV_bwd")
}

const fn backward(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::reference(name, "CONV_bwd", "CONV", reader).backward("CONV_bwd")
}

#[rustfmt::skip]
pub(super) const OPS: &[OpEntry] = &[
    forward("ConvBiasReLU_",              conv_bias),
    backward("ConvBiasReLU_Backward",      conv_bias_backward),
    forward("ConvBias_",                  conv_bias),
    backward("ConvBias_Backward",          conv_bias_backward),
    forward("aten::convolution",          convolution),
    backward("aten::convolution_backward", convolution_backward),
];
