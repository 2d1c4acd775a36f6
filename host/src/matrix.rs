//! Matrices of f32 in host memory: random ones, and .npy files in and out.
//!
//! A file is read only after its header was found to agree with its length, so that a wrong or hostile header can't ask for more memory than the
//! file could fill. A result is written to a temporary file beside its destination and renamed when complete: it appears whole or not at all.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Cursor, Read, Write},
    path::{Path, PathBuf},
};

use ndarray::{Array2, ArrayD, Ix2};
use ndarray_npy::{ReadNpyExt, WriteNpyExt};
use py_literal::Value;
use rand::{SeedableRng, rngs::ChaCha12Rng};
use rand_distr::{Distribution, StandardNormal};

/// The dtypes that [`read_npy`] takes, as numpy writes them.
pub const DTYPES: &str = "float32 ('<f4' or '>f4')";

/// Why a matrix could not be read or written. Every text names the file.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// The file can't be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file isn't what numpy.save writes.
    #[error("{} is not a .npy file: {reason}; numpy.save writes such files", path.display())]
    NotNpy {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Elements of another type.
    #[error("{} holds elements of dtype {dtype}; taken: {DTYPES}. Convert with array.astype('float32')", path.display())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The dtype in its header.
        dtype: String,
    },
    /// Not two-dimensional.
    #[error("{} is {dimensions}-dimensional; expected a matrix, with 2 dimensions", path.display())]
    NotAMatrix {
        /// The file.
        path: PathBuf,
        /// Its dimensions.
        dimensions: usize,
    },
    /// Shorter or longer than its header says.
    #[error("{} is {what}: its header announces {rows} x {columns} elements, {expected} bytes, and {found} follow", path.display())]
    WrongLength {
        /// The file.
        path: PathBuf,
        /// "truncated" or "too long".
        what: &'static str,
        /// Rows in the header.
        rows: u64,
        /// Columns in the header.
        columns: u64,
        /// Bytes announced.
        expected: u128,
        /// Bytes found.
        found: u64,
    },
    /// More than this machine can hold.
    #[error("{} needs {bytes} bytes of memory, which are not to be had", path.display())]
    OutOfMemory {
        /// The file.
        path: PathBuf,
        /// Bytes needed.
        bytes: u128,
    },
    /// The output can't be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A `rows` x `columns` matrix of standard normal numbers, the same for the same seed on every machine.
pub fn random_normal(rows: usize, columns: usize, seed: u64) -> Array2<f32> {
    random_normals(&[(rows, columns)], seed).pop().expect("one shape was given")
}

/// Matrices of standard normal numbers drawn one after the other from one generator.
pub fn random_normals(shapes: &[(usize, usize)], seed: u64) -> Vec<Array2<f32>> {
    // Named, not StdRng: its algorithm is part of its name, so a seed means the same numbers in every release.
    let mut generator = ChaCha12Rng::seed_from_u64(seed);
    shapes.iter().map(|&shape| Array2::from_shape_simple_fn(shape, || StandardNormal.sample(&mut generator))).collect()
}

/// Reads a matrix of f32 from a .npy file, in C or Fortran order and of either byte order.
///
/// # Errors
///
/// [`MatrixError`] if the file is missing or unreadable, is no .npy file, holds another dtype or number of dimensions, or has
/// another length than its header says.
pub fn read_npy(path: &Path) -> Result<Array2<f32>, MatrixError> {
    let read_error = |source| MatrixError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(read_error)?;
    let metadata = file.metadata().map_err(read_error)?;
    if metadata.is_dir() {
        return Err(read_error(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory")));
    }
    let mut reader = BufReader::new(file);
    let header = Header::read(&mut reader, path)?;

    let expected = header.bytes();
    let wrong_length = |found: u64| MatrixError::WrongLength {
        path: path.to_owned(),
        what: if u128::from(found) < expected { "truncated" } else { "too long" },
        rows: header.rows,
        columns: header.columns,
        expected,
        found,
    };
    if metadata.is_file() {
        let found = metadata.len().saturating_sub(header.raw.len() as u64);
        if u128::from(found) != expected {
            return Err(wrong_length(found));
        }
    }
    let out_of_memory = || MatrixError::OutOfMemory { path: path.to_owned(), bytes: expected };
    let bytes = usize::try_from(expected).map_err(|_| out_of_memory())?;
    if header.rows.max(header.columns) > isize::MAX as u64 {
        return Err(out_of_memory());
    }
    // A trial, so that a shortage is an error here instead of the end of the process inside the reader.
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| out_of_memory())?;

    let array = ArrayD::<f32>::read_npy(Cursor::new(&header.raw).chain(reader)).map_err(|error| match error {
        ndarray_npy::ReadNpyError::Io(source) => read_error(source),
        ndarray_npy::ReadNpyError::MissingData => wrong_length(0),
        ndarray_npy::ReadNpyError::ExtraBytes(extra) => wrong_length((bytes + extra) as u64),
        other => MatrixError::NotNpy { path: path.to_owned(), reason: other.to_string() },
    })?;
    let matrix = array.into_dimensionality::<Ix2>().expect("the header has two dimensions");
    // Kernels want rows without gaps; a matrix in Fortran order is copied once here.
    Ok(if matrix.is_standard_layout() { matrix } else { matrix.as_standard_layout().into_owned() })
}

/// The header of a .npy file of f32 in two dimensions.
struct Header {
    /// All bytes before the elements.
    raw: Vec<u8>,
    rows: u64,
    columns: u64,
}

impl Header {
    /// numpy's own headers have about 100 bytes; a longer one than this is no header of a plain matrix.
    const MOST_BYTES: usize = 64 * 1024;
    const MAGIC: &[u8] = b"\x93NUMPY";

    fn read(reader: &mut impl Read, path: &Path) -> Result<Header, MatrixError> {
        let not_npy = |reason: String| MatrixError::NotNpy { path: path.to_owned(), reason };
        let mut raw = Vec::new();
        let mut take = |raw: &mut Vec<u8>, bytes: usize| {
            let got = reader
                .by_ref()
                .take(bytes as u64)
                .read_to_end(raw)
                .map_err(|source| MatrixError::Read { path: path.to_owned(), source })?;
            if got == bytes {
                Ok(())
            } else {
                Err(not_npy(format!("it ends inside the header, after {} bytes", raw.len())))
            }
        };
        take(&mut raw, Self::MAGIC.len() + 2).map_err(|error| match error {
            MatrixError::NotNpy { .. } => not_npy("it is too short for a header".to_owned()),
            other => other,
        })?;
        if !raw.starts_with(Self::MAGIC) {
            return Err(not_npy("it doesn't begin with the bytes \\x93NUMPY".to_owned()));
        }
        // Version 1 has the header's length in two bytes, later ones in four (numpy.lib.format).
        let length_bytes = match raw[Self::MAGIC.len()] {
            1 => 2,
            2 | 3 => 4,
            version => return Err(not_npy(format!("format version {version} is unknown; known: 1, 2, 3"))),
        };
        take(&mut raw, length_bytes)?;
        let length = raw[raw.len() - length_bytes..].iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
        if length > Self::MOST_BYTES {
            return Err(not_npy(format!("its header claims {length} bytes")));
        }
        let start = raw.len();
        take(&mut raw, length)?;
        let text = String::from_utf8_lossy(&raw[start..]).into_owned();
        let literal: Value = text
            .trim_end_matches(['\0', '\n', ' '])
            .parse()
            .map_err(|_| not_npy("its header is no Python dictionary".to_owned()))?;
        let Value::Dict(entries) = literal else {
            return Err(not_npy("its header is no Python dictionary".to_owned()));
        };
        let entry = |name: &str| {
            let found = entries.iter().find(|(key, _)| key.as_string().is_some_and(|key| key == name));
            found.map(|(_, value)| value).ok_or_else(|| not_npy(format!("its header has no '{name}'")))
        };

        let dtype = entry("descr")?;
        if !dtype.as_string().is_some_and(|text| matches!(text.as_str(), "<f4" | ">f4")) {
            return Err(MatrixError::Dtype { path: path.to_owned(), dtype: dtype.to_string() });
        }
        if entry("fortran_order")?.as_boolean().is_none() {
            return Err(not_npy("'fortran_order' in its header is neither True nor False".to_owned()));
        }
        let shape =
            entry("shape")?.as_tuple().ok_or_else(|| not_npy("'shape' in its header is no tuple".to_owned()))?;
        let sizes = shape
            .iter()
            .map(|size| size.as_integer().and_then(|size| u64::try_from(size.clone()).ok()))
            .collect::<Option<Vec<u64>>>()
            .ok_or_else(|| not_npy("'shape' in its header holds something other than sizes".to_owned()))?;
        let &[rows, columns] = sizes.as_slice() else {
            return Err(MatrixError::NotAMatrix { path: path.to_owned(), dimensions: sizes.len() });
        };
        Ok(Header { raw, rows, columns })
    }

    fn bytes(&self) -> u128 {
        u128::from(self.rows).saturating_mul(u128::from(self.columns)).saturating_mul(size_of::<f32>() as u128)
    }
}

/// A file that appears whole or not at all.
///
/// It is created before the work that fills it, so that a destination that can't be written is noticed first.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// Renamed to the destination when complete; removed if dropped before.
    Temporary(tempfile::NamedTempFile),
    /// A device or pipe, which can't be replaced by a file.
    Stream(File),
}

impl OutputFile {
    /// Opens a temporary file beside `path`.
    ///
    /// # Errors
    ///
    /// [`MatrixError::Write`] if `path` is a directory, or its directory is missing or not writable.
    pub fn create(path: &Path) -> Result<OutputFile, MatrixError> {
        let write_error = |source| MatrixError::Write { path: path.to_owned(), source };
        // Through a symbolic link the file it names is replaced, not the link.
        let destination = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if let Ok(metadata) = destination.metadata() {
            if metadata.is_dir() {
                return Err(write_error(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory")));
            }
            if !metadata.is_file() {
                let stream = File::options().write(true).open(&destination).map_err(write_error)?;
                return Ok(OutputFile { path: destination, target: Target::Stream(stream) });
            }
            if metadata.permissions().readonly() {
                return Err(write_error(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only")));
            }
        } else if path.file_name().is_none() || path.as_os_str().to_string_lossy().ends_with('/') {
            return Err(write_error(io::Error::new(io::ErrorKind::IsADirectory, "it names a directory")));
        }
        let directory = match destination.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".gemm-").suffix(".tmp");
        // Temporary files are private by default; the result should have the permissions of any new file.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        // The system's word alone: the error's own text names the temporary file, which means nothing to the user.
        let temporary = builder.tempfile_in(directory).map_err(|error| write_error(error.kind().into()))?;
        Ok(OutputFile { path: destination, target: Target::Temporary(temporary) })
    }

    /// Writes `matrix` as .npy and puts the file in its place.
    ///
    /// # Errors
    ///
    /// [`MatrixError::Write`], and then the destination is as it was.
    pub fn write_npy(self, matrix: &Array2<f32>) -> Result<(), MatrixError> {
        let path = self.path;
        let write_error = |source| MatrixError::Write { path: path.clone(), source };
        let fill = |file: &File| {
            let mut writer = BufWriter::new(file);
            matrix.write_npy(&mut writer).map_err(|error| match error {
                ndarray_npy::WriteNpyError::Io(source) => source,
                other => io::Error::other(other),
            })?;
            writer.flush()
        };
        match self.target {
            Target::Stream(file) => fill(&file).map_err(write_error),
            Target::Temporary(temporary) => {
                fill(temporary.as_file()).map_err(write_error)?;
                temporary.persist(&path).map_err(|error| write_error(error.error))?;
                Ok(())
            }
        }
    }
}
