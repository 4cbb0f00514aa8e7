//! How a category's models count, in a sentence: for people who ask what a number is made of. The formulas stand in
//! `models/`.

use crate::ops::OpEntry;

/// Category and sentence.
#[rustfmt::skip]
const ABOUT: &[(&str, &str)] = &[
    ("CONV_bwd", "one pass of multiply-adds for each of the two large gradients that are wanted; each pass reads two of input, weights and output gradient and writes the third"),
    ("CONV_fwd", "2 FLOPs for each output element and weight of its channel; input, weights and output once"),
    ("CrossEntropy_fwd", "a few FLOPs for each logit; the logits once"),
    ("CustomCollective", "the local tensors read and written; link traffic is not device memory traffic"),
    ("GEMM", "2 M N K FLOPs, M N more with a bias; both operands read once, the result written once, each in its own type"),
    ("GroupQuant", "a few FLOPs for each element; the input read, the quantised output and its scales written"),
    ("GroupedGEMM_fwd", "2 M N K FLOPs over all groups; the rows once, every group's weights once, the result once"),
    ("InferenceAttention", "query and key pairs counted from the step's annotation; queries, the cache's keys and values that are seen, and the output"),
    ("MoE_aux", "no arithmetic to speak of; routing tables and tokens read and written"),
    ("MoE_comm_fwd", "no arithmetic; the tokens read and written"),
    ("MoE_fused", "2 FLOPs for each token, expert it goes through and weight; the weights of experts that some token chose are read, on average"),
    ("MoE_unfused", "2 FLOPs for each token, expert it goes through and weight of the projection; the weights of experts that some token chose are read, on average"),
    ("NORM_bwd", "about 9 FLOPs for each element; both tensors and the statistics read, the wanted gradients written"),
    ("NORM_fwd", "2 FLOPs for each element, 5 where statistics are computed; x read (twice for batch norm in training), y written, weight, bias and statistics"),
    ("RMSNorm", "about 4 FLOPs for each element; x read, y written, the weight, and what is fused with it"),
    ("RoPE_fwd", "a few FLOPs for each rotated element; queries and keys read and written, the tables read"),
    ("SDPA_bwd", "five products over the query and key pairs that the mask leaves; Q, the output gradient, and of K and V what some query sees, read, three gradients written"),
    ("SDPA_fwd", "2 FLOPs for each query and key pair that the mask leaves, head and element of Q K' and P V; Q, and of K and V what some query sees, read, the output written"),
    ("SSM_fwd", "the scan's products and the convolution before it; inputs, states and output"),
    ("elementwise", "FLOPs for each output element by its function: 1 for sums, products, comparisons and copies, 2 for roots, 4 for exponentials and the like, 8 for gelu, 2 more for a gradient, none where it only fills; every operand that is read once as it is stored, the result written"),
    ("mHC", "the projection's products and a few FLOPs for each element of the streams; streams and weights once"),
    ("multi_tensor_apply", "a few FLOPs for each element of the lists; every list that is read or written once"),
    ("other", "a formula of its own: what it must read and what it writes, and its FLOPs where it has any"),
    ("reduce", "FLOPs for each input element: 1, for a norm of a vector 2, for softmax 5, its gradient 4, with a mask 6; the input read once, the result written"),
    ("triton", "the operations in the kernel's name, weighted, for each element; its tensors once"),
];

/// How the model of an operation counts; `None` if it has none.
pub fn about(entry: &OpEntry) -> Option<&'static str> {
    entry.reader?;
    let at = ABOUT.binary_search_by_key(&entry.category, |(category, _)| category).ok()?;
    Some(ABOUT[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;

    #[test]
    fn every_model_has_its_sentence() {
        assert!(ABOUT.is_sorted_by_key(|(category, _)| category));
        for entry in ops::all().iter().chain(ops::find_prefix("triton_poi_fused")) {
            assert_eq!(about(entry).is_some(), entry.reader.is_some(), "{}: {}", entry.name, entry.category);
        }
    }
}
