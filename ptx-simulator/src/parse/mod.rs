//! From PTX text to a syntax tree. Knows PTX's grammar and nothing about what instructions mean; [`crate::decode`]
//! gives the tree its meaning.

mod lexer;
mod parser;
pub mod syntax;

pub use parser::parse;

/// Text that isn't PTX.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message} in `{text}`")]
pub struct ParseError {
    /// Line in the PTX text, from 1.
    pub line: u32,
    /// The offending piece of text.
    pub text: String,
    /// What is wrong with it.
    pub message: String,
}
