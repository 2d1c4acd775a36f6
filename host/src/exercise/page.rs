//! The file that the reader works in.

use std::{
    fs,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use crate::matrix::{MatrixError, OutputFile};

/// The page as it was handed out.
pub const START: &str = include_str!("../../../gpu-kernels/exercise/start.rs");

/// What belongs into the loop.
pub const SOLUTION: &str = include_str!("../../../gpu-kernels/exercise/solution.rs");

/// The page as this build was made from it.
pub const BUILT: &str = include_str!("../../../gpu-kernels/src/exercise.rs");

/// The page's name as line directives in the PTX have it.
pub const NAME: &str = "gpu-kernels/src/exercise.rs";

/// Where the page is on the machine that built this program.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("gpu-kernels").join("src/exercise.rs")
}

/// The line, from 1, of TODO number `todo` in `page`; `None` if the reader has removed the mark.
pub fn todo_line(page: &str, todo: u8) -> Option<usize> {
    let mark = format!("TODO {todo}");
    page.lines().position(|line| line.trim_start().starts_with("//") && line.contains(&mark)).map(|line| line + 1)
}

/// Whether a page still has the code that it was handed out with; comments and blank lines don't count.
pub fn is_untouched(page: &str) -> bool {
    let code = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default().trim().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    };
    code(page) == code(START)
}

/// The page at `path`, if it isn't as it was handed out.
///
/// # Errors
///
/// [`PageError`] if the file can't be read for another reason than that it is missing from its folder.
pub fn work(path: &Path) -> Result<Option<Vec<u8>>, PageError> {
    match fs::read(path) {
        Ok(text) if text == START.as_bytes() => Ok(None),
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound && path.parent().is_some_and(Path::is_dir) => Ok(None),
        Err(source) => Err(PageError { path: path.to_owned(), source }),
    }
}

/// Whether the page at `path` was edited after this program was built from it. A page that isn't there, as where the
/// program was copied to another machine, was not.
pub fn is_newer_than_this_program(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text != BUILT)
}

/// Puts the page at `path` back as it was handed out.
///
/// # Errors
///
/// [`MatrixError::Write`], and then the file is as it was.
pub fn reset(path: &Path) -> Result<(), MatrixError> {
    OutputFile::create(path)?.write(|writer| writer.write_all(START.as_bytes()))
}

/// A page that can't be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "the exercise can't be read from {}: {source}; this program works with the sources that it was built from, in their place",
    path.display()
)]
pub struct PageError {
    path: PathBuf,
    source: std::io::Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_as_handed_out_is_untouched_and_comments_do_not_count() {
        assert!(is_untouched(START));
        assert!(is_untouched(&START.replace("// TODO 1: load.", "// Well, load.")));
        assert!(!is_untouched(&START.replace("// TODO 2: nobody", "thread::sync_threads(); // nobody")));
    }

    #[test]
    fn a_page_with_work_in_it_is_told_from_one_that_is_fresh_or_missing_and_can_be_brought_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("exercise.rs");
        assert!(work(&path).unwrap().is_none());
        fs::write(&path, "my work").unwrap();
        assert_eq!(work(&path).unwrap().as_deref(), Some(b"my work".as_slice()));
        fs::write(&path, b"\xff\xfe").unwrap();
        assert!(work(&path).unwrap().is_some());
        reset(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), START);
        assert!(work(&path).unwrap().is_none());
        let elsewhere = folder.path().join("no/such/folder/exercise.rs");
        assert!(work(&elsewhere).unwrap_err().to_string().contains("no/such/folder"));
    }

    #[test]
    fn every_todo_is_found_once_in_the_page_and_in_the_solution() {
        for text in [START, SOLUTION] {
            let lines: Vec<_> = (1..=4).map(|todo| todo_line(text, todo).unwrap()).collect();
            assert!(lines.is_sorted(), "{lines:?}");
            assert_eq!(text.matches("TODO").count(), 4);
        }
    }
}
