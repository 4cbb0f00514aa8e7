//! What every operation should have cost: models, platforms and tables.

pub mod args;
pub mod call;
pub mod count;
pub mod dtype;
pub mod kernels;
pub mod literal;
pub mod models;
pub mod ops;
pub mod parity;
pub mod value;
