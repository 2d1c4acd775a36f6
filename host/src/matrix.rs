//! Matrices of f32 in host memory: random ones, and .npy files in and out.
//!
//! A file is read only after its header was found to agree with its length, so that a wrong or hostile header can't ask
//! for more memory than the file could fill. A result is written to a temporary file beside its destination and renamed
//! when complete: it appears whole or not at all.

mod header;

use std::{
    ffi::OsStr,
    fmt,
    fs::File,
    io::{self, BufReader, BufWriter, Cursor, Read, Write},
    path::{Path, PathBuf},
};

use ndarray::{Array, Array2, ArrayD, Dimension};
use ndarray_npy::{ReadNpyExt, WriteNpyExt};
use rand::{SeedableRng, rngs::ChaCha12Rng};
use rand_distr::{Distribution, StandardNormal};

use header::Header;

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
    /// Neither two-dimensional nor three-dimensional.
    #[error(
        "{} is {dimensions}-dimensional; expected a matrix, with 2 dimensions, or a batch of matrices, with 3 (batch, rows, columns)",
        path.display()
    )]
    NotAMatrix {
        /// The file.
        path: PathBuf,
        /// Its dimensions.
        dimensions: usize,
    },
    /// Shorter or longer than its header says.
    #[error("{} is {what}: its header announces {shape} elements, {expected} bytes, and {found} follow", path.display())]
    WrongLength {
        /// The file.
        path: PathBuf,
        /// "truncated" or "too long".
        what: &'static str,
        /// The sizes in the header, joined by " x ".
        shape: String,
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
    /// Sizes that can't be counted with, of an array without elements.
    #[error("{} has a shape of {shape}: expected sizes whose product, without zeros, is less than 2^63", path.display())]
    Sizes {
        /// The file.
        path: PathBuf,
        /// The sizes in the header, joined by " x ".
        shape: String,
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

/// Reads a matrix of f32, with 2 dimensions, or a batch of them, with 3, from a .npy file, in C or Fortran order and of
/// either byte order. In memory it is in C order.
///
/// # Errors
///
/// [`MatrixError`] if the file is missing or unreadable, is no .npy file, holds another dtype or number of dimensions,
/// or has another length than its header says.
pub fn read_npy(path: &Path) -> Result<ArrayD<f32>, MatrixError> {
    let read_error = |source| MatrixError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(read_error)?;
    let metadata = file.metadata().map_err(read_error)?;
    if metadata.is_dir() {
        return Err(read_error(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory")));
    }
    let mut reader = BufReader::new(file);
    let header = Header::read(&mut reader, path)?;

    let expected = header.data_bytes();
    let shape = || header.shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ");
    let wrong_length = |found: u64| MatrixError::WrongLength {
        path: path.to_owned(),
        what: if u128::from(found) < expected { "truncated" } else { "too long" },
        shape: shape(),
        expected,
        found,
    };
    if metadata.is_file() {
        let found = metadata.len().saturating_sub(header.bytes);
        if u128::from(found) != expected {
            return Err(wrong_length(found));
        }
    }
    let out_of_memory = || MatrixError::OutOfMemory { path: path.to_owned(), bytes: expected };
    // An array without elements still has sizes, whose product may be larger than anything.
    let sizes = header.shape.iter().filter(|size| **size > 0).map(|size| u128::from(*size));
    if sizes.fold(1, u128::saturating_mul) > isize::MAX as u128 {
        return Err(MatrixError::Sizes { path: path.to_owned(), shape: shape() });
    }
    // A matrix in Fortran order is copied once, so it needs its memory twice.
    let needed = expected.saturating_mul(if header.fortran_order { 2 } else { 1 });
    if !can_allocate(needed) {
        return Err(out_of_memory());
    }

    // The library gets a header written here, so that it sees the very shape and type that were checked above.
    let array =
        ArrayD::<f32>::read_npy(Cursor::new(header.rewritten()).chain(reader)).map_err(|error| match error {
            ndarray_npy::ReadNpyError::Io(source) => read_error(source),
            ndarray_npy::ReadNpyError::MissingData => wrong_length(0),
            ndarray_npy::ReadNpyError::ExtraBytes(extra) => wrong_length(expected as u64 + extra as u64),
            other => MatrixError::NotNpy { path: path.to_owned(), reason: other.to_string() },
        })?;
    // Kernels want rows without gaps.
    Ok(if array.is_standard_layout() { array } else { array.as_standard_layout().into_owned() })
}

/// Whether this process can get that many bytes: tried, so that a shortage is an error with a name instead of the end
/// of the process.
pub fn can_allocate(bytes: u128) -> bool {
    usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
}

/// A file that appears whole or not at all.
///
/// Whether it can be written is tried before the work that fills it, so that a bad destination is noticed first.
#[derive(Debug)]
pub struct OutputFile {
    /// As the user named it.
    path: PathBuf,
    /// Where it is: through symbolic links, so that the file that a link names is replaced and not the link.
    destination: PathBuf,
    /// Whether it is a device or a pipe, which can't be replaced by a file.
    stream: bool,
}

impl fmt::Display for OutputFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(formatter)
    }
}

impl OutputFile {
    /// Checks that a file can be written at `path`.
    ///
    /// # Errors
    ///
    /// [`MatrixError::Write`] if `path` is a directory, a symbolic link to nowhere, or a file that may not be written,
    /// or if its directory is missing or not writable.
    pub fn create(path: &Path) -> Result<OutputFile, MatrixError> {
        let write_error = |source| MatrixError::Write { path: path.to_owned(), source };
        let refuse = |kind, text: &str| Err(write_error(io::Error::new(kind, text.to_owned())));
        if path.as_os_str().is_empty() {
            return refuse(io::ErrorKind::InvalidInput, "the name is empty");
        }
        if path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return refuse(io::ErrorKind::IsADirectory, "it names a directory; name a file");
        }
        let destination = match path.canonicalize() {
            Ok(destination) => destination,
            Err(_) if path.is_symlink() => return refuse(io::ErrorKind::NotFound, "it is a symbolic link to nowhere"),
            Err(_) => path.to_owned(),
        };
        let mut output = OutputFile { path: path.to_owned(), destination, stream: false };
        if let Ok(metadata) = output.destination.metadata() {
            if metadata.is_dir() {
                return refuse(io::ErrorKind::IsADirectory, "it is a directory; name a file");
            }
            output.stream = !metadata.is_file();
            if output.stream {
                return Ok(output);
            }
            // Opening it changes nothing, and says whether this user may write it.
            File::options().write(true).open(&output.destination).map_err(write_error)?;
        }
        if !output.directory().is_dir() {
            let text = format!("the directory {} does not exist", output.directory().display());
            return refuse(io::ErrorKind::NotFound, &text);
        }
        // Made and removed again: the real one comes when it can be filled at once, so that an interrupted run leaves
        // none behind.
        output.temporary().map_err(write_error)?;
        Ok(output)
    }

    /// Whether both are one file, of which the later would replace the earlier. A device or a pipe takes one after the other.
    pub fn is_same(&self, other: &OutputFile) -> bool {
        let place = |file: &OutputFile| {
            (file.directory().canonicalize().ok(), file.destination.file_name().map(OsStr::to_owned))
        };
        !self.stream && place(self) == place(other)
    }

    fn directory(&self) -> &Path {
        match self.destination.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            _ => Path::new("."),
        }
    }

    /// A file beside the destination that is removed unless it is put in its place.
    fn temporary(&self) -> io::Result<tempfile::NamedTempFile> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".gemm-").suffix(".tmp");
        // Temporary files are private by default; the result should have the permissions of the file it replaces, or of
        // any new file.
        #[cfg(unix)]
        builder.permissions(match self.destination.metadata() {
            Ok(metadata) => metadata.permissions(),
            Err(_) => std::os::unix::fs::PermissionsExt::from_mode(0o666),
        });
        // The system's word alone: the error's own text names the temporary file, which means nothing to the user.
        builder.tempfile_in(self.directory()).map_err(|error| error.kind().into())
    }

    /// Writes a matrix, or a batch of them, as .npy and puts the file in its place.
    ///
    /// # Errors
    ///
    /// [`MatrixError::Write`], and then the destination is as it was.
    pub fn write_npy<D: Dimension>(self, matrices: &Array<f32, D>) -> Result<(), MatrixError> {
        self.write(|writer| {
            matrices.write_npy(writer).map_err(|error| match error {
                ndarray_npy::WriteNpyError::Io(source) => source,
                other => io::Error::other(other),
            })
        })
    }

    /// Has `fill` write the file and puts it in its place.
    ///
    /// # Errors
    ///
    /// [`MatrixError::Write`], and then the destination is as it was.
    pub fn write(self, fill: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>) -> Result<(), MatrixError> {
        let write_error = |source| MatrixError::Write { path: self.path.clone(), source };
        let fill = |file: &File| {
            let mut writer = BufWriter::new(file);
            fill(&mut writer)?;
            writer.flush()
        };
        if self.stream {
            let stream = File::options().write(true).open(&self.destination);
            return stream.and_then(|stream| fill(&stream)).map_err(write_error);
        }
        let temporary = self.temporary().map_err(write_error)?;
        fill(temporary.as_file()).map_err(write_error)?;
        temporary.persist(&self.destination).map_err(|error| write_error(error.error))?;
        Ok(())
    }
}
