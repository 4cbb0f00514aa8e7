//! What every operation should have cost: models, platforms and tables.

pub mod call;
pub mod models;
mod nearest;
pub mod ops;
pub mod parity;
pub mod platform;
pub mod roofline;
pub mod value;
