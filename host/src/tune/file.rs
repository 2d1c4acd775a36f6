//! What a tuning found, as a file: which choice is the fastest for each class, on one GPU, with one driver and one build of the
//! kernels.
//!
//! The file is in `$XDG_CACHE_HOME/rust-gemm` (`~/.cache/rust-gemm`), or in the folder that the variable [`FOLDER_VARIABLE`]
//! names; its name says what it is for. It is replaced whole or not at all, so that an interrupted tuning leaves what it had. A file that
//! can't be read, isn't what it should be or is for another GPU, driver or build is as good as none: the reason is said where
//! somebody asks, and the model's choice is used.

use std::{
    env, fs, io,
    io::Write,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::class::Class;
use crate::{
    device::{DeviceInfo, DeviceKind},
    plan::{Problem, model::MOST_SUMS},
};

/// The variable that names the folder for tuning files.
pub const FOLDER_VARIABLE: &str = "GEMM_TUNE_DIR";

/// What this version writes; other versions' files are foreign.
const FORMAT: u32 = 1;

/// The largest file that is read: ours have less than one megabyte.
const MOST_BYTES: u64 = 32 << 20;

/// What a tuning is for: it is worth nothing elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The GPU's name, as its driver has it.
    pub gpu: String,
    /// The driver's version: it contains the compiler that makes machine code of the kernels.
    pub driver: String,
    /// A hash of the production kernels' PTX without its line directives.
    pub build: String,
}

impl Key {
    /// The key of this build on a device; `None` on the simulator, whose times mean nothing.
    pub fn new(device: &DeviceInfo) -> Option<Key> {
        if matches!(device.kind, DeviceKind::Simulator) {
            return None;
        }
        let driver = device.detail.iter().find(|(label, _)| label == "driver").map(|(_, value)| value.clone());
        Some(Key { gpu: device.name.clone(), driver: driver.unwrap_or_default(), build: build().to_owned() })
    }

    /// The name of the file for it.
    pub fn file_name(&self) -> String {
        let plain = |text: &str| {
            let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '.');
            words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
        };
        format!("{}.driver-{}.build-{}.json", plain(&self.gpu), plain(&self.driver), plain(&self.build))
    }
}

/// The hash of this build's production kernels.
pub fn build() -> &'static str {
    env!("PRODUCTION_KERNELS_HASH")
}

/// The fastest choice for a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Winner {
    /// The class.
    #[serde(flatten)]
    pub class: Class,
    /// The kernel's name.
    pub kernel: String,
    /// Parts of the inner dimension.
    pub splits: u32,
    /// Rows of tiles that run side by side.
    pub group: u32,
    /// The time of one launch.
    pub microseconds: f64,
    /// The kernel that the model would have chosen.
    pub model: String,
    /// Parts that the model would have cut the inner dimension into.
    pub model_splits: u32,
    /// The time of one launch of the model's choice.
    pub model_microseconds: f64,
}

/// A tuning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneFile {
    format: u32,
    /// What it is for.
    #[serde(flatten)]
    pub key: Key,
    /// The fastest choices, in the order of their classes.
    pub winners: Vec<Winner>,
}

/// Why a tuning can't be used, or written.
#[derive(Debug, thiserror::Error)]
pub enum TuneFileError {
    /// There is none.
    #[error("{} isn't there", .path.display())]
    Missing {
        /// Where it would be.
        path: PathBuf,
    },
    /// It can't be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It isn't what this program writes.
    #[error("{} is no tuning of this program's ({reason}); tune --reset removes it", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It is another GPU's, driver's or build's.
    #[error("{} is for another {what} ({found} instead of {expected})", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// What it is for.
        found: String,
        /// What was looked for.
        expected: String,
    },
    /// Nobody says where files of this kind go.
    #[error("neither {FOLDER_VARIABLE} nor XDG_CACHE_HOME nor HOME is set: name a folder for tunings with one of them")]
    NoFolder,
}

/// The folder for tunings.
///
/// # Errors
///
/// [`TuneFileError::NoFolder`].
pub fn folder() -> Result<PathBuf, TuneFileError> {
    // An empty or relative XDG_CACHE_HOME counts as none, as its specification has it.
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let cache = || absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    own.or_else(|| Some(cache()?.join("rust-gemm"))).ok_or(TuneFileError::NoFolder)
}

impl TuneFile {
    /// A tuning of nothing yet.
    pub fn new(key: Key) -> TuneFile {
        TuneFile { format: FORMAT, key, winners: Vec::new() }
    }

    /// Reads a tuning from its text.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<TuneFile, String> {
        let mut file: TuneFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if file.format != FORMAT {
            return Err(format!("its format is {}, this program's is {FORMAT}", file.format));
        }
        file.winners.sort_by_key(|winner| winner.class);
        let is_time = |time: f64| time.is_finite() && time > 0.0;
        let wrong = file.winners.iter().find(|winner| {
            !winner.class.is_known()
                || winner.splits == 0
                || winner.group == 0
                || !has_room(winner)
                || !is_time(winner.microseconds)
                || !is_time(winner.model_microseconds)
        });
        match wrong {
            Some(winner) => {
                let Class { m, n, k, .. } = winner.class;
                Err(format!("what it says of {m} x {n} x {k} can't be"))
            }
            None => Ok(file),
        }
    }

    /// Reads the tuning for `key` from `folder`.
    ///
    /// # Errors
    ///
    /// [`TuneFileError`] if there is none, or none that can be used.
    pub fn load(folder: &Path, key: &Key) -> Result<TuneFile, TuneFileError> {
        let path = folder.join(key.file_name());
        let failed = |source| TuneFileError::File { path: path.clone(), source };
        let metadata = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(TuneFileError::Missing { path }),
            metadata => metadata.map_err(failed)?,
        };
        let corrupt = |reason: String| TuneFileError::Corrupt { path: path.clone(), reason };
        // A pipe would be waited for, and a device may have no end.
        if !metadata.is_file() {
            return Err(corrupt("it isn't a file".to_owned()));
        }
        if metadata.len() > MOST_BYTES {
            return Err(corrupt(format!("it has {} bytes", metadata.len())));
        }
        let text = String::from_utf8(fs::read(&path).map_err(failed)?).map_err(|error| corrupt(error.to_string()))?;
        let file = TuneFile::parse(&text).map_err(corrupt)?;
        let pairs = [
            ("GPU", &file.key.gpu, &key.gpu),
            ("driver", &file.key.driver, &key.driver),
            ("build of the kernels", &file.key.build, &key.build),
        ];
        if let Some((what, found, expected)) = pairs.into_iter().find(|(_, found, expected)| found != expected) {
            let (found, expected) = (found.clone(), expected.clone());
            return Err(TuneFileError::Foreign { path, what, found, expected });
        }
        Ok(file)
    }

    /// Writes it into `folder`, which is made if it isn't there, in the place of an older one. Gives the path.
    ///
    /// # Errors
    ///
    /// [`TuneFileError::File`].
    pub fn save(&self, folder: &Path) -> Result<PathBuf, TuneFileError> {
        let path = folder.join(self.key.file_name());
        let failed = |source| TuneFileError::File { path: path.clone(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut temporary = tempfile::Builder::new().prefix(".tune-").tempfile_in(folder).map_err(failed)?;
        temporary.write_all(self.text().as_bytes()).map_err(failed)?;
        temporary.persist(&path).map_err(|error| failed(error.error))?;
        Ok(path)
    }

    /// Its text: JSON with a winner a line.
    pub fn text(&self) -> String {
        let winners: Vec<String> = self.winners.iter().map(|winner| format!("    {}", json(winner))).collect();
        let Key { gpu, driver, build } = &self.key;
        let [gpu, driver, build] = [gpu, driver, build].map(json);
        format!(
            "{{\n  \"format\": {},\n  \"gpu\": {gpu},\n  \"driver\": {driver},\n  \"build\": {build},\n  \"winners\": [\n{}\n  ]\n}}\n",
            self.format,
            winners.join(",\n")
        )
    }

    /// Takes down the winner of a class, in the place of an older one.
    pub fn put(&mut self, winner: Winner) {
        match self.winners.binary_search_by_key(&winner.class, |known| known.class) {
            Ok(place) => self.winners[place] = winner,
            Err(place) => self.winners.insert(place, winner),
        }
    }

    /// The winner of a class, if it was tuned.
    pub fn get(&self, class: &Class) -> Option<&Winner> {
        let place = self.winners.binary_search_by_key(class, |known| known.class).ok()?;
        Some(&self.winners[place])
    }
}

/// Whether the sums of the winner's splits are as many as a plan may have.
fn has_room(winner: &Winner) -> bool {
    let Problem { m, n, .. } = winner.class.problem();
    winner.splits == 1 || m as u128 * n as u128 * u128::from(winner.splits) <= MOST_SUMS as u128
}

/// A value in one line. Strings and numbers are all there is, and writing those doesn't fail.
fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::class::Way;

    fn key() -> Key {
        Key { gpu: "NVIDIA H200".to_owned(), driver: "580.1 (CUDA 13.0)".to_owned(), build: "0123".to_owned() }
    }

    fn winner(m: usize, kernel: &str) -> Winner {
        Winner {
            class: Class { m, n: 64, k: 1024, a: Way::AlongK, b: Way::Words },
            kernel: kernel.to_owned(),
            splits: 2,
            group: 8,
            microseconds: 12.5,
            model: "other".to_owned(),
            model_splits: 1,
            model_microseconds: 13.0,
        }
    }

    fn file() -> TuneFile {
        let mut file = TuneFile::new(key());
        for m in [1024, 16, 256] {
            file.put(winner(m, "first"));
        }
        file.put(winner(16, "second"));
        file
    }

    #[test]
    fn a_tuning_is_read_back_as_it_was_written_and_a_class_has_one_winner() {
        let folder = tempfile::tempdir().unwrap();
        let deeper = folder.path().join("a/b");
        let path = file().save(&deeper).unwrap();
        assert_eq!(path.file_name().unwrap(), "NVIDIA-H200.driver-580.1-CUDA-13.0.build-0123.json");
        let read = TuneFile::load(&deeper, &key()).unwrap();
        assert_eq!(read, file());
        assert_eq!(read.winners.len(), 3);
        assert_eq!(read.get(&winner(16, "").class).unwrap().kernel, "second");
        assert!(read.get(&winner(64, "").class).is_none());
        assert_eq!(deeper.read_dir().unwrap().count(), 1, "nothing else is left behind");
    }

    #[test]
    fn a_file_that_is_no_tuning_is_said_to_be_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(key().file_name());
        let text = file().text();
        let broken = [
            String::new(),
            "{}".to_owned(),
            text[..text.len() / 2].to_owned(),
            text.replace("\"format\": 1", "\"format\": 2"),
            text.replace("\"m\":16", "\"m\":17"),
            text.replace("\"splits\":2", "\"splits\":0"),
            text.replace("\"splits\":2", "\"splits\":-1"),
            text.replace("\"splits\":2", "\"splits\":4294967295"),
            text.replace("12.5", "0.0"),
            text.replace("12.5", "1e999"),
            text.replace("words", "bits"),
        ];
        for text in broken {
            fs::write(&path, &text).unwrap();
            let error = TuneFile::load(folder.path(), &key()).unwrap_err();
            assert!(matches!(error, TuneFileError::Corrupt { .. }), "{error}: {text}");
        }
        fs::write(&path, b"\xff\xfe").unwrap();
        assert!(matches!(TuneFile::load(folder.path(), &key()), Err(TuneFileError::Corrupt { .. })));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(TuneFile::load(folder.path(), &key()), Err(TuneFileError::Corrupt { .. })));
    }

    #[test]
    fn a_file_for_something_else_is_foreign_and_none_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(TuneFile::load(folder.path(), &key()), Err(TuneFileError::Missing { .. })));
        let other = Key { driver: "580.2".to_owned(), ..key() };
        fs::write(folder.path().join(other.file_name()), file().text()).unwrap();
        let error = TuneFile::load(folder.path(), &other).unwrap_err().to_string();
        assert!(error.contains("another driver") && error.contains("580.1"), "{error}");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let occupied = folder.path().join("file");
        fs::write(&occupied, "").unwrap();
        let error = file().save(&occupied).unwrap_err().to_string();
        assert!(error.contains("file"), "{error}");
    }
}
