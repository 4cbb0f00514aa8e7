//! Families of operations: as many as colours can be told apart.

/// What kind of work something is, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    Gemm,
    Attention,
    Convolution,
    Norm,
    Elementwise,
    Reduce,
    Compiled,
    Experts,
    Communication,
    Copy,
    Other,
}

impl Family {
    /// All, in the order of legends. The position is the number in page data and in class names.
    pub(crate) const ALL: [(Self, &'static str); 11] = [
        (Self::Gemm, "Matrix products"),
        (Self::Attention, "Attention"),
        (Self::Convolution, "Convolution"),
        (Self::Norm, "Normalization"),
        (Self::Elementwise, "Elementwise"),
        (Self::Reduce, "Reductions"),
        (Self::Compiled, "Compiled kernels"),
        (Self::Experts, "Experts (MoE)"),
        (Self::Communication, "Communication"),
        (Self::Copy, "Copies"),
        (Self::Other, "Other"),
    ];

    /// From a category of the report or of the analysis. The first word that fits decides.
    pub(crate) fn of_category(category: &str) -> Self {
        const WORDS: &[(&str, Family)] = &[
            ("comm", Family::Communication),
            ("nccl", Family::Communication),
            ("collective", Family::Communication),
            ("gemm", Family::Gemm),
            ("sdpa", Family::Attention),
            ("attention", Family::Attention),
            ("conv", Family::Convolution),
            ("norm", Family::Norm),
            ("bn_", Family::Norm),
            ("elementwise", Family::Elementwise),
            ("rope", Family::Elementwise),
            ("quant", Family::Elementwise),
            ("reduce", Family::Reduce),
            ("crossentropy", Family::Reduce),
            ("triton", Family::Compiled),
            ("moe", Family::Experts),
            ("memcpy", Family::Copy),
            ("copy", Family::Copy),
        ];
        let category = category.to_lowercase();
        WORDS.iter().find(|(word, _)| category.contains(word)).map_or(Self::Other, |(_, family)| *family)
    }

    /// Position in [`Family::ALL`].
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// Class that gives it its colour.
    pub(crate) fn class(self) -> String {
        format!("f{}", self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_of_both_tables_have_a_family() {
        let all = [
            ("GEMM", Family::Gemm),
            ("GroupedGEMM_bwd", Family::Gemm),
            ("SDPA_fwd", Family::Attention),
            ("inferenceattention", Family::Attention),
            ("BN_fwd", Family::Norm),
            ("batchnorm", Family::Norm),
            ("CONV_fwd", Family::Convolution),
            ("MoE_comm_dispatch", Family::Communication),
            ("record_param_comms", Family::Communication),
            ("MoE_fused", Family::Experts),
            ("triton", Family::Compiled),
            ("something", Family::Other),
        ];
        for (category, family) in all {
            assert_eq!(Family::of_category(category), family, "{category}");
        }
        for (i, (family, _)) in Family::ALL.iter().enumerate() {
            assert_eq!(usize::from(family.number()), i);
        }
    }
}
