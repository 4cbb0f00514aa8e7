//! Integration tests of the analysis.

#[cfg(test)]
mod system;
