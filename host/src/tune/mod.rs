//! Tuning.
pub mod class;
pub mod contest;
pub mod file;
