//! What every operation should have cost: models, platforms and tables.

pub mod args;
pub mod calculator;
pub mod call;
pub mod count;
pub mod dtype;
mod expr;
pub mod extension;
pub mod kernels;
pub mod launch;
pub mod literal;
pub mod models;
pub mod nearest;
pub mod ops;
pub mod parity;
pub mod platform;
pub mod roofline;
pub mod tables;
pub mod value;
