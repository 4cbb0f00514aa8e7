//! Data types by the names a trace gives them: bytes of an element, label of the arithmetic.

use crate::parity::Quirks;

/// Bytes of one element of `name` (letter case does not matter); `None` if the type is unknown.
///
/// `Float4_e2m1fn_x2` weighs one byte per stored pair; shapes in a trace are already packed.
pub fn size(name: &str, quirks: &Quirks) -> Option<i64> {
    let known = match lower(name).as_str() {
        "double" | "long int" => 8,
        "float" | "int" | "scalar" => 4,
        "c10::half" | "c10::bfloat16" => 2,
        "c10::float8_e4m3fnuz"
        | "c10::float8_e4m3fn"
        | "c10::float8_e5m2"
        | "c10::float8_e8m0fnu"
        | "unsigned char"
        | "signed char"
        | "fp8"
        | "c10::float4_e2m1fn_x2"
        | "fp4" => 1,
        other if !quirks.dtype_sizes_missing => return size_missing_in_reference(other),
        _ => return None,
    };
    Some(known)
}

/// The types that the reference's table lacks, so that its byte cells stay blank.
fn size_missing_in_reference(lower_case: &str) -> Option<i64> {
    match lower_case {
        "c10::complex<double>" => Some(16),
        "unsigned long" | "unsigned long int" | "c10::complex<float>" => Some(8),
        "unsigned int" | "c10::complex<c10::half>" | "c10::qint32" => Some(4),
        "short int" | "short" | "unsigned short" | "unsigned short int" => Some(2),
        "bool" | "char" | "c10::float8_e5m2fnuz" | "c10::qint8" | "c10::quint8" => Some(1),
        _ => None,
    }
}

/// Label of the arithmetic done on `name`: `bf16`, `fp8`, …; `None` for types without one.
///
/// `unsigned char` stands for packed or raw 8-bit floats in matrix work; for elementwise work on real bytes see
/// [`vector_precision`].
pub fn precision(name: &str, quirks: &Quirks) -> Option<&'static str> {
    match lower(name).as_str() {
        "double" => Some("fp64"),
        "float" => Some("fp32"),
        "c10::half" => Some("fp16"),
        "c10::bfloat16" => Some("bf16"),
        "c10::float8_e4m3fnuz" | "c10::float8_e4m3fn" | "unsigned char" | "fp8" => Some("fp8"),
        "fp4" | "mxfp4" | "c10::float4_e2m1fn_x2" => Some("fp4"),
        "c10::float8_e5m2" | "c10::float8_e5m2fnuz" if !quirks.precision_labels_missing => Some("fp8"),
        "signed char" | "c10::qint8" if !quirks.precision_labels_missing => Some("int8"),
        _ => None,
    }
}

/// As [`precision`], for work outside the matrix units, where bytes are just bytes.
pub fn vector_precision(name: &str, quirks: &Quirks) -> Option<&'static str> {
    let plain_bytes = name.eq_ignore_ascii_case("unsigned char") && !quirks.precision_labels_missing;
    if plain_bytes { None } else { precision(name, quirks) }
}

/// Whether an entry of a shape stands for two 4-bit numbers, which share a byte.
pub fn is_packed_pair(name: &str) -> bool {
    name.eq_ignore_ascii_case("c10::Float4_e2m1fn_x2")
}

/// Bytes of one element as the reference's expert models count them (letter case matters); `None`: not listed, the
/// model's own default holds.
pub fn expert_size(name: &str) -> Option<f64> {
    match name {
        "Float8_e4m3fn"
        | "Float8_e4m3fnuz"
        | "Float8_e5m2"
        | "Float8_e5m2fnuz"
        | "FP8"
        | "c10::Float8_e4m3fn"
        | "c10::Float8_e4m3fnuz" => Some(1.0),
        "FP4" | "c10::Float4_e2m1fn_x2" => Some(0.5),
        "BFloat16" | "Float16" | "Half" | "c10::BFloat16" | "c10::Half" => Some(2.0),
        "Float32" | "Float" | "c10::Float" => Some(4.0),
        _ => None,
    }
}

/// Bytes of one element in a compiled Triton kernel's tensor list.
///
/// The reference knows only C++ class names here; those that a trace really writes (`float`, `int`) weigh nothing
/// (F34).
pub fn triton_size(name: &str, quirks: &Quirks) -> i64 {
    match name {
        "c10::Double" | "c10::Long" => 8,
        "c10::Float" | "c10::Int" => 4,
        "c10::BFloat16" | "c10::Half" => 2,
        "c10::Byte" | "c10::Char" => 1,
        _ if quirks.triton_plain_types_weigh_nothing => 0,
        other => size(other, quirks).unwrap_or(0),
    }
}

/// Bytes of one element of the type with PyTorch's number `code` (the `dtype=` arguments of a trace).
pub fn size_of_code(code: i64) -> Option<i64> {
    match code {
        // uint8, int8, bool, quantised bytes, the five 8-bit floats
        0 | 1 | 11..=13 | 23..=26 | 44 => Some(1),
        // int16, half, bfloat16, uint16
        2 | 5 | 15 | 27 => Some(2),
        // int32, float, complex half, qint32, uint32
        3 | 6 | 8 | 14 | 28 => Some(4),
        // int64, double, complex float, uint64
        4 | 7 | 9 | 29 => Some(8),
        // complex double
        10 => Some(16),
        _ => None,
    }
}

/// Bytes of one element by the name that a communication record gives its type; `None` if the type is unknown.
pub fn communicated_size(name: &str, quirks: &Quirks) -> Option<i64> {
    match name {
        "Double" | "Long" => Some(8),
        "Float" | "Int" => Some(4),
        "BFloat16" | "Half" | "Short" => Some(2),
        "Bool" | "Byte" => Some(1),
        _ if quirks.communicated_sizes_missing => None,
        "ComplexDouble" => Some(16),
        "ComplexFloat" | "UInt64" => Some(8),
        "ComplexHalf" | "UInt32" => Some(4),
        "UInt16" => Some(2),
        "Char" => Some(1),
        other => other.starts_with("Float8_").then_some(1),
    }
}

/// Kinds of number in the order in which PyTorch promotes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Bool,
    Integer,
    Float,
    Complex,
}

fn kind(lower_case: &str) -> Kind {
    match lower_case {
        "bool" => Kind::Bool,
        n if n.starts_with("c10::complex") => Kind::Complex,
        "double" | "float" | "c10::half" | "c10::bfloat16" => Kind::Float,
        n if n.starts_with("c10::float") => Kind::Float,
        _ => Kind::Integer,
    }
}

/// Whether `name` is a type of whole numbers or truth values: their sums are 64 bits wide.
pub fn is_integer(name: &str) -> bool {
    let known = size(name, &Quirks::NONE).is_some() && !name.eq_ignore_ascii_case("scalar");
    known && matches!(kind(lower(name).as_str()), Kind::Bool | Kind::Integer)
}

/// Whether `name` is a type of complex numbers.
pub fn is_complex(name: &str) -> bool {
    kind(lower(name).as_str()) == Kind::Complex
}

/// One operand of an elementwise operation, for [`promoted_size`].
#[derive(Debug, Clone, Copy)]
pub struct Operand<'a> {
    /// Type name; that of a Python number is `double`, `long int` or `Scalar`.
    pub dtype: &'a str,
    /// Whether the operand has no dimensions (a number, or a tensor of one element without sizes).
    pub zero_dim: bool,
}

/// Bytes of an element of PyTorch's default type, which whole numbers become where the result can't be one.
const DEFAULT_FLOAT: i64 = 4;

/// Bytes of one element of the result of `a ∘ b`.
///
/// PyTorch's rule: the higher kind of number wins; within a kind an operand without dimensions never widens the
/// other. A number of a higher kind than the tensor turns the result into the default type of that kind (`float`).
pub fn promoted_size(a: Operand<'_>, b: Operand<'_>, quirks: &Quirks) -> Option<i64> {
    promoted(a, b, quirks).map(|(_, size)| size)
}

/// As [`promoted_size`], of an operation whose result is never whole, such as a true division.
pub fn promoted_float_size(a: Operand<'_>, b: Operand<'_>, quirks: &Quirks) -> Option<i64> {
    promoted(a, b, quirks).map(|(kind, size)| if kind < Kind::Float { DEFAULT_FLOAT } else { size })
}

/// Bytes of one element of a result that is never whole, of an operand of type `name`.
pub fn float_size(name: &str, quirks: &Quirks) -> Option<i64> {
    if is_integer(name) { Some(DEFAULT_FLOAT) } else { size(name, quirks) }
}

fn is_unsigned(operand: Operand<'_>) -> bool {
    operand.dtype.eq_ignore_ascii_case("unsigned char")
}

/// Kind and bytes of the result of `a ∘ b`.
fn promoted(a: Operand<'_>, b: Operand<'_>, quirks: &Quirks) -> Option<(Kind, i64)> {
    let (size_a, size_b) = (size(a.dtype, quirks)?, size(b.dtype, quirks)?);
    let (kind_a, kind_b) = (kind(lower(a.dtype).as_str()), kind(lower(b.dtype).as_str()));
    if a.zero_dim == b.zero_dim {
        let size = match (kind_a, kind_b) {
            // Neither of the two 16-bit types holds all numbers of the other.
            (Kind::Float, Kind::Float) if size_a == 2 && size_b == 2 && !a.dtype.eq_ignore_ascii_case(b.dtype) => 4,
            // Nor of the two types of bytes.
            (Kind::Integer, Kind::Integer) if size_a == 1 && size_b == 1 && is_unsigned(a) != is_unsigned(b) => 2,
            // Both parts of a complex number are as wide as the other operand at least.
            (Kind::Complex, Kind::Float) => size_a.max(2 * size_b),
            (Kind::Float, Kind::Complex) => size_b.max(2 * size_a),
            _ if kind_a == kind_b => size_a.max(size_b),
            _ if kind_a > kind_b => size_a,
            _ => size_b,
        };
        return Some((kind_a.max(kind_b), size));
    }
    let (tensor, tensor_kind, number, number_kind) =
        if b.zero_dim { (size_a, kind_a, size_b, kind_b) } else { (size_b, kind_b, size_a, kind_a) };
    // A number without a recorded type (`Scalar`) takes the tensor's.
    let tensor_type = if b.zero_dim { a.dtype } else { b.dtype };
    let untyped = if b.zero_dim { b.dtype } else { a.dtype }.eq_ignore_ascii_case("Scalar");
    if untyped || number_kind <= tensor_kind {
        return Some((tensor_kind, tensor));
    }
    let size = match number_kind {
        Kind::Float => number.min(DEFAULT_FLOAT),
        // There are complex numbers of all floating-point types but this one, for which those of `float` stand.
        Kind::Complex if tensor_type.eq_ignore_ascii_case("c10::BFloat16") => 2 * DEFAULT_FLOAT,
        Kind::Complex if tensor_kind == Kind::Float => 2 * tensor,
        Kind::Complex => number.min(2 * DEFAULT_FLOAT),
        Kind::Bool | Kind::Integer => number,
    };
    Some((number_kind, size))
}

/// Longest name of a known type, and some more: what differs only behind it is unknown either way.
const LONGEST: usize = 32;

/// A type's name in lower case, cut at [`LONGEST`] bytes. Asked for every operand, so it needs no memory of its own.
struct Lower {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Lower {
    fn as_str(&self) -> &str {
        // A name cut inside a character is none of ours.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

fn lower(name: &str) -> Lower {
    let len = name.len().min(LONGEST);
    let mut bytes = [0; LONGEST];
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    bytes.make_ascii_lowercase();
    Lower { bytes, len }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_both_fidelities() {
        for (name, reference, correct) in [
            ("float", Some(4), Some(4)),
            ("C10::BFLOAT16", Some(2), Some(2)),
            ("Scalar", Some(4), Some(4)),
            ("long int", Some(8), Some(8)),
            ("c10::Float4_e2m1fn_x2", Some(1), Some(1)),
            ("bool", None, Some(1)),
            ("short int", None, Some(2)),
            ("c10::complex<float>", None, Some(8)),
            ("c10::Float8_e5m2fnuz", None, Some(1)),
            ("TensorList", None, None),
            ("", None, None),
        ] {
            assert_eq!(size(name, &Quirks::REFERENCE), reference, "{name}");
            assert_eq!(size(name, &Quirks::NONE), correct, "{name}");
        }
    }

    #[test]
    fn sizes_of_what_is_communicated_in_both_fidelities() {
        for (name, reference, correct) in [
            ("Double", Some(8), Some(8)),
            ("Float", Some(4), Some(4)),
            ("BFloat16", Some(2), Some(2)),
            ("Byte", Some(1), Some(1)),
            ("ComplexDouble", None, Some(16)),
            ("ComplexFloat", None, Some(8)),
            ("UInt32", None, Some(4)),
            ("UInt16", None, Some(2)),
            ("Char", None, Some(1)),
            ("Float8_e4m3fn", None, Some(1)),
            ("Float8_e5m2fnuz", None, Some(1)),
            ("float", None, None),
            ("", None, None),
        ] {
            assert_eq!(communicated_size(name, &Quirks::REFERENCE), reference, "{name}");
            assert_eq!(communicated_size(name, &Quirks::NONE), correct, "{name}");
        }
    }

    #[test]
    fn precision_labels_in_both_fidelities() {
        for (name, reference, correct) in [
            ("c10::Half", Some("fp16"), Some("fp16")),
            ("unsigned char", Some("fp8"), Some("fp8")),
            ("signed char", None, Some("int8")),
            ("c10::Float8_e5m2", None, Some("fp8")),
            ("long int", None, None),
        ] {
            assert_eq!(precision(name, &Quirks::REFERENCE), reference, "{name}");
            assert_eq!(precision(name, &Quirks::NONE), correct, "{name}");
        }
        assert_eq!(vector_precision("unsigned char", &Quirks::REFERENCE), Some("fp8"));
        assert_eq!(vector_precision("unsigned char", &Quirks::NONE), None);
        assert_eq!(vector_precision("signed char", &Quirks::NONE), Some("int8"));
        assert_eq!(vector_precision("float", &Quirks::NONE), Some("fp32"));
    }

    #[test]
    fn plain_types_weigh_nothing_in_the_reference_triton_table() {
        assert_eq!(triton_size("float", &Quirks::REFERENCE), 0);
        assert_eq!(triton_size("float", &Quirks::NONE), 4);
        assert_eq!(triton_size("c10::Long", &Quirks::REFERENCE), 8);
        assert_eq!(triton_size("bool", &Quirks::NONE), 1);
    }

    #[test]
    fn promotion_follows_the_kind_then_the_width() {
        let tensor = |dtype| Operand { dtype, zero_dim: false };
        let number = |dtype| Operand { dtype, zero_dim: true };
        let promoted = |a, b| promoted_size(a, b, &Quirks::NONE);
        assert_eq!(promoted(tensor("c10::BFloat16"), tensor("float")), Some(4));
        assert_eq!(promoted(tensor("c10::BFloat16"), number("double")), Some(2));
        assert_eq!(promoted(number("float"), tensor("c10::BFloat16")), Some(2));
        assert_eq!(promoted(tensor("long int"), tensor("c10::Half")), Some(2));
        assert_eq!(promoted(tensor("long int"), number("double")), Some(4));
        assert_eq!(promoted(tensor("bool"), number("long int")), Some(8));
        assert_eq!(promoted(tensor("long int"), number("Scalar")), Some(8));
        assert_eq!(promoted(tensor("c10::Half"), tensor("c10::BFloat16")), Some(4));
        assert_eq!(promoted(tensor("c10::Half"), number("c10::BFloat16")), Some(2));
        assert_eq!(promoted(tensor("c10::complex<float>"), tensor("double")), Some(16));
        assert_eq!(promoted(tensor("c10::Half"), tensor("c10::complex<float>")), Some(8));
        assert_eq!(promoted(tensor("c10::complex<float>"), tensor("long int")), Some(8));
        assert_eq!(promoted(tensor("c10::complex<float>"), number("double")), Some(8));
        assert_eq!(promoted(tensor("double"), number("c10::complex<double>")), Some(16));
        assert_eq!(promoted(tensor("float"), number("c10::complex<double>")), Some(8));
        assert_eq!(promoted(tensor("long int"), number("c10::complex<double>")), Some(8));
        assert_eq!(promoted(tensor("c10::Half"), number("c10::complex<double>")), Some(4));
        assert_eq!(promoted(tensor("c10::BFloat16"), number("c10::complex<double>")), Some(8));
        assert_eq!(promoted(tensor("unsigned char"), tensor("signed char")), Some(2));
        assert_eq!(promoted(tensor("unsigned char"), tensor("unsigned char")), Some(1));
        assert_eq!(promoted(tensor("unsigned char"), number("signed char")), Some(1));
        assert_eq!(promoted(tensor("mystery"), tensor("double")), None);
    }

    #[test]
    fn what_is_never_whole_has_the_default_type() {
        let tensor = |dtype| Operand { dtype, zero_dim: false };
        let number = |dtype| Operand { dtype, zero_dim: true };
        let divided = |a, b| promoted_float_size(a, b, &Quirks::NONE);
        assert_eq!(divided(tensor("long int"), tensor("long int")), Some(4));
        assert_eq!(divided(tensor("bool"), tensor("unsigned char")), Some(4));
        assert_eq!(divided(tensor("long int"), number("Scalar")), Some(4));
        assert_eq!(divided(tensor("long int"), tensor("c10::Half")), Some(2));
        assert_eq!(divided(tensor("double"), tensor("int")), Some(8));
        for (name, bytes) in [("long int", Some(4)), ("bool", Some(4)), ("c10::Half", Some(2)), ("mystery", None)] {
            assert_eq!(float_size(name, &Quirks::NONE), bytes, "{name}");
        }
    }
}
