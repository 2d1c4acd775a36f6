//! What happens to the PTX between rustc and the file that is handed out.
//!
//! `tidy` removes what says nothing, `check` makes sure that the module keeps its promises, and both read the text
//! through `text`. Directives that a kernel should carry, such as launch bounds, belong into a room beside these two:
//! they stand between an entry's parameters and its body.
mod check;
mod text;
mod tidy;

pub use check::check;
pub use tidy::tidy;
