//! How products are planned where a tuning is known.
//!
//! A class spans a factor of two in each size, and how many tiles a product has, and so how well they fill the multiprocessors,
//! changes within it. So the winner of a class is a kernel that deserves more trust than the model gives it, not the answer for every
//! size: it is taken where the model thinks it at most [`TRUST`] times as slow as its own choice for the very size, with the
//! splits of K that suit that size.

use std::{collections::HashMap, path::PathBuf};

use gpu_kernels::Kernel;

use super::{
    class::{Class, Layout},
    file::{self, Key, TuneFile, TuneFileError},
};
use crate::{
    device::DeviceInfo,
    plan::{self, Problem},
};

/// How much slower than its own choice the model may think the winner of a class.
pub const TRUST: f64 = 1.15;

/// The tunings that come with this build, as `tune` wrote them.
const SHIPPED: &[&str] = &[];

/// Where a tuning is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// There is none: the model chooses.
    None,
    /// The user's own, from this file.
    File(PathBuf),
    /// It came with this build, made on a GPU of this kind.
    Shipped,
}

/// The kernels to prefer on a device.
#[derive(Clone, Debug)]
pub struct Tuned {
    kernels: HashMap<Class, &'static Kernel>,
    /// Where it is from.
    pub origin: Origin,
    /// Why the user's own file isn't used, though there is one.
    pub ignored: Option<String>,
}

impl Tuned {
    /// No tuning: the model chooses.
    pub fn none() -> Tuned {
        Tuned { kernels: HashMap::new(), origin: Origin::None, ignored: None }
    }

    /// What is known of a device: the user's tuning from the folder that [`file::folder`] says, else one that came with this
    /// build for a GPU of that name, whatever its driver.
    pub fn for_device(device: &DeviceInfo) -> Tuned {
        let Some(key) = Key::new(device) else { return Tuned::none() };
        let load = || {
            let folder = file::folder()?;
            Ok((TuneFile::load(&folder, &key)?, folder.join(key.file_name())))
        };
        match load() {
            Ok((file, path)) => Tuned { origin: Origin::File(path), ..Tuned::of_file(&file) },
            Err(TuneFileError::Missing { .. } | TuneFileError::NoFolder) => Tuned::shipped(&key),
            Err(error) => Tuned { ignored: Some(error.to_string()), ..Tuned::shipped(&key) },
        }
    }

    fn shipped(key: &Key) -> Tuned {
        shipped_for(key)
            .first()
            .map_or_else(Tuned::none, |file| Tuned { origin: Origin::Shipped, ..Tuned::of_file(file) })
    }

    /// The winners that this build has; those that the model would choose anyway say nothing.
    fn of_file(file: &TuneFile) -> Tuned {
        let winners = file.winners.iter().filter(|winner| winner.kernel != winner.model);
        let kernels = winners.filter_map(|winner| Some((winner.class, plan::by_name(&winner.kernel).ok()?)));
        Tuned { kernels: kernels.collect(), ..Tuned::none() }
    }

    /// The kernel that won the class of a product, if it isn't the model's choice anyway.
    pub fn winner(&self, problem: &Problem) -> Option<&'static Kernel> {
        if self.kernels.is_empty() || problem.batch != 1 {
            return None;
        }
        let layout = |layout: plan::Layout| Layout::new(layout.by_columns, layout.aligned);
        let class = Class::of(problem.m, problem.n, problem.k, layout(problem.a), layout(problem.b));
        self.kernels.get(&class).copied()
    }

    /// Classes whose winner isn't the model's choice.
    pub fn len(&self) -> usize {
        self.kernels.len()
    }

    /// Whether there is no such class.
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }
}

/// The tunings that come with this build.
pub fn shipped() -> Vec<TuneFile> {
    SHIPPED.iter().filter_map(|text| TuneFile::parse(text).ok()).collect()
}

/// The one of them for a GPU, if there is one.
pub fn shipped_for(key: &Key) -> Vec<TuneFile> {
    shipped().into_iter().filter(|file| file.key.gpu == key.gpu).take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::file::Winner;

    fn problem(m: usize) -> Problem {
        let layout = plan::Layout { by_columns: false, aligned: true };
        Problem { m, n: 1024, k: 1024, a: layout, b: layout, c_aligned: true, batch: 1, plain: true }
    }

    fn winner(m: usize, kernel: &str) -> Winner {
        Winner {
            class: Class::of(m, 1024, 1024, Layout::Rows, Layout::Rows),
            kernel: kernel.to_owned(),
            splits: 1,
            group: 1,
            microseconds: 1.0,
            model: "tiled".to_owned(),
            model_microseconds: 1.1,
        }
    }

    #[test]
    fn the_winner_of_the_nearest_class_is_preferred_unless_it_is_the_models_choice_or_unknown() {
        let key = Key { gpu: String::new(), driver: String::new(), build: String::new() };
        let mut file = TuneFile::new(key);
        file.put(winner(1024, "naive"));
        file.put(winner(512, "tiled"));
        file.put(winner(256, "of another build"));
        let tuned = Tuned::of_file(&file);
        assert_eq!(tuned.len(), 1);
        let name = |m| tuned.winner(&problem(m)).map(|kernel| kernel.name);
        assert_eq!(
            [name(1024), name(1400), name(512), name(256), name(4096)],
            [Some("naive"), Some("naive"), None, None, None]
        );
        assert!(tuned.winner(&Problem { batch: 2, ..problem(1024) }).is_none());
        let columns = plan::Layout { by_columns: true, aligned: true };
        assert!(tuned.winner(&Problem { a: columns, ..problem(1024) }).is_none());
    }

    #[test]
    fn the_tunings_that_come_with_this_build_can_be_read_and_name_its_kernels() {
        for text in SHIPPED {
            let file = TuneFile::parse(text).unwrap();
            for winner in &file.winners {
                assert!(plan::by_name(&winner.kernel).is_ok(), "{}", winner.kernel);
            }
        }
    }
}
