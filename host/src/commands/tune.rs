//! Time the kernels of this build on the GPU here, and keep the fastest.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, bail};
use host::{
    device::Device,
    gemm::Gemm,
    report::{TuneAct, TuneReport},
    tune::{
        self,
        file::{self, Key, TuneFile, TuneFileError},
        tuned,
    },
};

use super::{progress, start_workers};
use crate::cli::{Common, TuneArguments};

/// The longest time that may be asked for: what doesn't fit in a day never ends.
const MOST_MINUTES: f64 = 24.0 * 60.0;

pub fn run(arguments: &TuneArguments, common: Common) -> anyhow::Result<TuneReport> {
    if !(arguments.minutes > 0.0 && arguments.minutes <= MOST_MINUTES) {
        bail!("--minutes {} can't be: expected more than 0 and at most {MOST_MINUTES}", arguments.minutes);
    }
    let folder = || -> Result<PathBuf, TuneFileError> { arguments.folder.clone().map_or_else(file::folder, Ok) };
    let gemm = Gemm::new(Device::open(common.device())?);
    let device = gemm.device().info();
    let Some(key) = Key::new(&device) else {
        return match (arguments.show, arguments.reset) {
            (true, _) => Ok(TuneReport::new(TuneAct::Shown, None, tuned::shipped())),
            (_, true) => bail!("tunings are a GPU's, and there is none here to reset one for ({})", device.name),
            _ => Err(tune::TuneError::Simulator.into()),
        };
    };
    let folder = folder()?;
    let path = folder.join(key.file_name());
    if arguments.reset {
        return match std::fs::remove_file(&path) {
            Ok(()) => Ok(TuneReport::new(TuneAct::Reset { removed: true }, Some(path), tuned::shipped_for(&key))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(TuneReport::new(TuneAct::Reset { removed: false }, Some(path), tuned::shipped_for(&key)))
            }
            Err(error) => Err(error).with_context(|| format!("{} can't be removed", path.display())),
        };
    }
    if arguments.show {
        return match TuneFile::load(&folder, &key) {
            Ok(file) => Ok(TuneReport::new(TuneAct::Shown, Some(path), [file])),
            Err(TuneFileError::Missing { .. }) => {
                Ok(TuneReport::new(TuneAct::Shown, Some(path), tuned::shipped_for(&key)))
            }
            Err(error) => Err(error.into()),
        };
    }
    start_workers()?;
    let time = Duration::from_secs_f64(60.0 * arguments.minutes);
    let tuning = progress::counting("tuning", "classes", |update| {
        tune::tune(&gemm, &folder, time, |progress| update(progress.done as u64, progress.total as u64))
    })?;
    let tune::Tuning { file, path, tuned, left, wrong, replaced } = tuning;
    Ok(TuneReport::new(TuneAct::Tuned { tuned, left, wrong, replaced }, Some(path), [file]))
}
