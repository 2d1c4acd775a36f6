//! What happens to the PTX between rustc and the file that is handed out.
//!
//! `bound` gives entries the launch bounds that the crate states for them, `of_level` leaves out the entries of other levels,
//! `align_tensor_maps` aligns parameters, `tidy` removes what says nothing, `check` makes sure that the module keeps its
//! promises, and all read the text through `text`.
mod bounds;
mod check;
mod levels;
mod parameters;
mod text;
mod tidy;

pub use bounds::bound;
pub use check::{check, check_kernels};
pub use levels::of_level;
pub use parameters::align_tensor_maps;
pub use tidy::tidy;
