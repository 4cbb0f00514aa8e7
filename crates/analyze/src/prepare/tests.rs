//! Tests of the whole preparation.
