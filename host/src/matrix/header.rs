//! The header of a .npy file: which bytes follow, and how many.
//!
//! A header is a Python dictionary with three entries (numpy.lib.format). It is read here by a scanner without nesting
//! or backtracking, strictly and before anything else looks at the file, so that no header can cost more than one pass
//! over its bytes or mean one thing here and another elsewhere.

use std::{io::Read, path::Path};

use super::MatrixError;

const MAGIC: &[u8] = b"\x93NUMPY";

/// numpy's own headers have about 100 bytes; a longer one than this is no header of a plain matrix.
const MOST_BYTES: usize = 64 * 1024;

/// The header of a file of f32 in two or three dimensions.
#[derive(Debug)]
pub(super) struct Header {
    /// Bytes before the elements.
    pub(super) bytes: u64,
    /// The sizes along its dimensions, two or three.
    pub(super) shape: Vec<u64>,
    pub(super) fortran_order: bool,
    big_endian: bool,
}

impl Header {
    pub(super) fn read(reader: &mut impl Read, path: &Path) -> Result<Header, MatrixError> {
        let not_npy = |reason: String| MatrixError::NotNpy { path: path.to_owned(), reason };
        let mut raw = Vec::new();
        let mut take = |raw: &mut Vec<u8>, bytes: usize| {
            let read = reader.by_ref().take(bytes as u64).read_to_end(raw);
            let got = read.map_err(|source| MatrixError::Read { path: path.to_owned(), source })?;
            if got == bytes {
                Ok(())
            } else {
                Err(not_npy(format!("it ends inside the header, after {} bytes", raw.len())))
            }
        };
        take(&mut raw, MAGIC.len() + 2)?;
        if !raw.starts_with(MAGIC) {
            return Err(not_npy("it doesn't begin with the bytes \\x93NUMPY".to_owned()));
        }
        // Version 1 has the header's length in two bytes, later ones in four.
        let length_bytes = match (raw[MAGIC.len()], raw[MAGIC.len() + 1]) {
            (1, 0) => 2,
            (2 | 3, 0) => 4,
            (major, minor) => {
                return Err(not_npy(format!("format version {major}.{minor} is unknown; known: 1.0, 2.0, 3.0")));
            }
        };
        take(&mut raw, length_bytes)?;
        let length = raw[raw.len() - length_bytes..].iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
        if length > MOST_BYTES {
            return Err(not_npy(format!("its header claims {length} bytes")));
        }
        let start = raw.len();
        take(&mut raw, length)?;
        let text = String::from_utf8_lossy(&raw[start..]);
        let entries = Entries::scan(&text).map_err(|reason| not_npy(format!("its header {reason}")))?;

        let big_endian = match entries.dtype.as_str() {
            "'<f4'" | "\"<f4\"" => false,
            "'>f4'" | "\">f4\"" => true,
            dtype => return Err(MatrixError::Dtype { path: path.to_owned(), dtype: shortened(dtype) }),
        };
        let Entries { fortran_order, shape, .. } = entries;
        if !(2..=3).contains(&shape.len()) {
            return Err(MatrixError::NotAMatrix { path: path.to_owned(), dimensions: shape.len() });
        }
        Ok(Header { bytes: raw.len() as u64, shape, fortran_order, big_endian })
    }

    /// Bytes of the elements.
    pub(super) fn data_bytes(&self) -> u128 {
        self.shape.iter().fold(size_of::<f32>() as u128, |bytes, &size| bytes.saturating_mul(u128::from(size)))
    }

    /// The same header as numpy would write it.
    pub(super) fn rewritten(&self) -> Vec<u8> {
        let shape = self.shape.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let dtype = if self.big_endian { ">f4" } else { "<f4" };
        let order = if self.fortran_order { "True" } else { "False" };
        let text = format!("{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': ({shape}), }}");
        // Magic, version, length and text together fill a multiple of 64 bytes.
        let text = format!("{text:<117}\n");
        [MAGIC, b"\x01\x00", &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat()
    }
}

/// A dtype for an error message, which a hostile one shall not fill.
fn shortened(dtype: &str) -> String {
    const MOST: usize = 60;
    match dtype.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &dtype[..end]),
        None => dtype.to_owned(),
    }
}

/// The three entries.
struct Entries {
    /// As written, quotes and all.
    dtype: String,
    fortran_order: bool,
    shape: Vec<u64>,
}

impl Entries {
    /// Reads `{'descr': …, 'fortran_order': …, 'shape': …}`, in any order. An error completes "its header …".
    fn scan(text: &str) -> Result<Entries, String> {
        let no_dictionary = || "is no Python dictionary".to_owned();
        let text = text.trim_end_matches(['\0', '\n', ' ']);
        let mut rest = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or_else(no_dictionary)?.trim();
        let (mut dtype, mut fortran_order, mut shape) = (None, None, None);
        while !rest.is_empty() {
            let (key, value) = rest.split_once(':').ok_or_else(no_dictionary)?;
            let length = value_length(value).ok_or_else(no_dictionary)?;
            let (value, after) = value.split_at(length);
            let value = value.trim();
            let repeated = match key.trim() {
                "'descr'" | "\"descr\"" => dtype.replace(value.to_owned()).is_some(),
                "'fortran_order'" | "\"fortran_order\"" => fortran_order.replace(boolean(value)?).is_some(),
                "'shape'" | "\"shape\"" => shape.replace(sizes(value)?).is_some(),
                key => return Err(format!("has an entry {} that no .npy file has", shortened(key))),
            };
            if repeated {
                return Err(format!("has two entries {}", key.trim()));
            }
            rest = after.strip_prefix(',').unwrap_or(after).trim();
        }
        let missing = |name: &str| format!("has no '{name}'");
        Ok(Entries {
            dtype: dtype.ok_or_else(|| missing("descr"))?,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }
}

/// The length of the value that `text` begins with: up to the comma that is in no bracket or string. `None` if brackets
/// or quotes don't match.
fn value_length(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.checked_sub(1)?,
            (None, ',') if depth == 0 => return Some(at),
            (None, _) => {}
        }
    }
    (depth == 0 && quote.is_none()).then_some(text.len())
}

fn boolean(value: &str) -> Result<bool, String> {
    match value {
        "True" => Ok(true),
        "False" => Ok(false),
        _ => Err("has a 'fortran_order' that is neither True nor False".to_owned()),
    }
}

/// The sizes in a tuple such as `(3, 4)`, `(3,)` or `()`.
fn sizes(value: &str) -> Result<Vec<u64>, String> {
    let inside = value.strip_prefix('(').and_then(|value| value.strip_suffix(')'));
    let inside = inside.ok_or("has a 'shape' that is no tuple")?.trim();
    let inside = inside.strip_suffix(',').unwrap_or(inside);
    if inside.is_empty() {
        return Ok(Vec::new());
    }
    let size = |size: &str| {
        let size = size.trim();
        // Only digits: Rust would also read "+3".
        let digits = !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit());
        digits
            .then(|| size.parse().unwrap_or(u64::MAX))
            .ok_or_else(|| "has a 'shape' with something other than sizes".to_owned())
    };
    inside.split(',').map(size).collect()
}
