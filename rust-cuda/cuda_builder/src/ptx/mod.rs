//! What happens to the PTX between rustc and the file that is handed out.
//!
//! `bound` gives entries the launch bounds that the crate states for them, `tidy` removes what says nothing, `check` makes
//! sure that the module keeps its promises, and all read the text through `text`.
mod bounds;
mod check;
mod text;
mod tidy;

pub use bounds::bound;
pub use check::check;
pub use tidy::tidy;
