//! Geometry of a convolution, as far as bands need it.

use jarvis_perf::value::Value;

use crate::prepared::Row;

/// Kinds of convolution with bands of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Transposed,
    Depthwise,
    Grouped,
    Pointwise,
    Large,
    Standard,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Transposed => "transposed",
            Self::Depthwise => "depthwise",
            Self::Grouped => "grouped",
            Self::Pointwise => "pointwise",
            Self::Large => "large",
            Self::Standard => "standard",
        }
    }
}

/// Largest kernel side of a standard convolution.
const STANDARD_SIDE: i64 = 3;

/// Geometry of a convolution.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    /// Sides of the kernel.
    pub(super) kernel: Vec<i64>,
    pub(super) groups: i64,
    pub(super) dilation: Vec<i64>,
    channels: i64,
    /// Input channels of a group.
    pub(super) per_group: i64,
    transposed: bool,
    /// Strides and padding, where they are known.
    steps: Option<(Vec<i64>, Vec<i64>)>,
}

impl Shape {
    /// From the model's parameters, else from the arguments of `aten::convolution` and its backward.
    pub(super) fn of(row: &Row) -> Option<Self> {
        Self::by_params(row).or_else(|| Self::by_args(row))
    }

    fn by_params(row: &Row) -> Option<Self> {
        let value = |key: &str| row.params.iter().find(|(k, _)| k == key).map(|(_, v)| v);
        let input = value("input_shape")?.ints()?;
        let filter = value("filter_shape")?.ints()?;
        let steps = value("stride").and_then(Value::ints).zip(value("padding").and_then(Value::ints));
        let shape = Self::new(
            &input,
            &filter,
            value("groups").and_then(Value::ints).and_then(|g| g.first().copied()).unwrap_or(1),
            value("dilation").and_then(Value::ints).unwrap_or_default(),
            value("transposed_conv").is_some_and(Value::truth),
        )?;
        Some(Self { steps, ..shape })
    }

    fn by_args(row: &Row) -> Option<Self> {
        // The backward has the gradient first.
        let at = usize::from(row.name.contains("backward"));
        let dims = row.inputs.dims.as_ref()?;
        let (input, filter) = (dims.get(at)?.shape()?, dims.get(at + 1)?.shape()?);
        Self::new(input, filter, 1, Vec::new(), false)
    }

    pub(super) fn new(
        input: &[i64],
        filter: &[i64],
        groups: i64,
        dilation: Vec<i64>,
        transposed: bool,
    ) -> Option<Self> {
        let channels = *input.get(1)?;
        let kernel = filter.get(2..).filter(|k| !k.is_empty())?.to_vec();
        Some(Self { kernel, groups, dilation, channels, per_group: *filter.get(1)?, transposed, steps: None })
    }

    /// The first that fits.
    pub(super) fn kind(&self) -> Kind {
        match () {
            () if self.transposed => Kind::Transposed,
            () if self.groups > 1 && self.per_group == 1 && self.groups == self.channels => Kind::Depthwise,
            () if self.groups > 1 => Kind::Grouped,
            () => self.size(),
        }
    }

    /// By the size of the kernel alone.
    pub(super) fn size(&self) -> Kind {
        match self.kernel.iter().copied().max() {
            Some(1) => Kind::Pointwise,
            Some(side) if side > STANDARD_SIDE => Kind::Large,
            _ => Kind::Standard,
        }
    }

    /// Whether its windows lie side by side: then it is a product of patches and filters.
    pub(super) fn cuts_patches(&self) -> bool {
        let side_by_side = |(stride, padding): &(Vec<i64>, Vec<i64>)| {
            *stride == self.kernel && padding.iter().all(|&p| p == 0) && !self.is_dilated()
        };
        self.kernel.iter().all(|&side| side > 1) && self.steps.as_ref().is_some_and(side_by_side)
    }

    pub(super) fn is_dilated(&self) -> bool {
        self.dilation.iter().any(|&d| d > 1)
    }

    pub(super) fn kernel_text(&self) -> String {
        self.kernel.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
    }
}
