//! What every operation should have cost: models, platforms and tables.

pub mod call;
pub mod models;
pub mod ops;
pub mod parity;
pub mod value;
