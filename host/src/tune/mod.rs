//! Tuning.
pub mod class;
pub mod file;
