//! Integration tests: patterns on real traces.

#[cfg(test)]
mod patterns;
#[cfg(test)]
mod support;
