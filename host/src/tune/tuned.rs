//! How products are planned where a tuning is known.
//!
//! A class spans a factor of two in each size, and how many tiles a product has, and so how well they fill the multiprocessors,
//! changes within it. So the winner of a class is a kernel that deserves more trust than the [model] gives it, not the answer for every
//! size. In the middle of the class it was timed, and so was what the model chose there: by so much are the model's estimates of
//! the one and the other corrected, and for the very size the better one is taken, with the splits of K that suit that size.

use std::{collections::HashMap, path::PathBuf};

use gpu_kernels::{Kernel, Precision, Signature};

use super::{
    class::Class,
    file::{self, Key, TuneFile, TuneFileError},
};
use crate::{
    device::{DeviceInfo, Machine},
    kernels::{self, Named},
    plan::{self, Plan, Problem, model},
};

/// How much slower than with the best number of splits a kernel may be with those that won.
const CLOSE: f64 = 1.1;

/// The tunings that come with this build: what `tune` wrote, without the classes in which the model's choice won or all but won
/// (`measure/ship-tuning`).
const SHIPPED: &[&str] = &[include_str!("shipped/nvidia-h200.json")];

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

/// What is known of a class: plans for the product in its middle, and their measured seconds.
#[derive(Clone, Copy, Debug)]
struct Won {
    winner: Plan,
    seconds: f64,
    /// The model's choice when the class was tuned; `None` if this build doesn't have that kernel.
    model: Option<Plan>,
    model_seconds: f64,
}

/// The kernels to prefer on a device.
#[derive(Clone, Debug)]
pub struct Tuned {
    winners: HashMap<Class, Won>,
    /// Where it is from.
    pub origin: Origin,
    /// Why the user's own file isn't used, though there is one.
    pub ignored: Option<String>,
}

impl Tuned {
    /// No tuning: the model chooses.
    pub fn none() -> Tuned {
        Tuned { winners: HashMap::new(), origin: Origin::None, ignored: None }
    }

    /// What is known of a device: the user's tuning from the folder that [`file::folder`] says, else one that came with this
    /// build for a GPU of that name, whatever its driver.
    pub fn for_device(device: &DeviceInfo) -> Tuned {
        Key::new(device).map_or_else(Tuned::none, |key| Tuned::for_key(&key, file::folder(), SHIPPED))
    }

    /// What is known for a key: the tuning in `folder`, else one of those `shipped`.
    fn for_key(key: &Key, folder: Result<PathBuf, TuneFileError>, shipped: &[&str]) -> Tuned {
        let own = folder.and_then(|folder| Ok((TuneFile::load(&folder, key)?, folder.join(key.file_name()))));
        let shipped = || match of_gpu(shipped, key) {
            Some(file) => Tuned { origin: Origin::Shipped, ..Tuned::of_file(&file) },
            None => Tuned::none(),
        };
        match own {
            Ok((file, path)) => Tuned { origin: Origin::File(path), ..Tuned::of_file(&file) },
            Err(TuneFileError::Missing { .. } | TuneFileError::NoFolder) => shipped(),
            Err(error) => Tuned { ignored: Some(error.to_string()), ..shipped() },
        }
    }

    /// The winners that this build has.
    fn of_file(file: &TuneFile) -> Tuned {
        let winners = file.winners.iter().filter_map(|winner| {
            let plan = |name, splits| Some(Plan { kernel: kernel(name)?, splits, group: winner.group });
            let won = Won {
                winner: plan(&winner.kernel, winner.splits)?,
                seconds: 1e-6 * winner.microseconds,
                model: plan(&winner.model, winner.model_splits),
                model_seconds: 1e-6 * winner.model_microseconds,
            };
            // A kernel that no tuning would have chosen is as good as none: products that other kernels can do shall not fail.
            let kernel = won.winner.kernel;
            let can = winner.class.problem().plain || kernel.signature == Signature::Call;
            (can && kernel.precision == Precision::F32).then_some((winner.class, won))
        });
        Tuned { winners: winners.collect(), ..Tuned::none() }
    }

    /// The plan for a product for which the model has `own`: the same, or one with the winner of the product's class.
    pub fn plan(&self, problem: &Problem, machine: Machine, own: Plan) -> Plan {
        if self.winners.is_empty() || problem.batch != 1 {
            return own;
        }
        let class = Class::of(problem);
        let Some(&won) = self.winners.get(&class) else { return own };
        let winner = Plan { kernel: plan::suitable(won.winner.kernel, problem.a, problem.b), ..won.winner };
        let middle = class.problem();
        if *problem == middle {
            return winner;
        }
        // Where the model is right in the middle of the class it knows the rest better. (It may be another one than that which
        // the file has the choices of: that model has been fitted anew since changes neither kernels nor times.)
        let models = plan::plan(&middle, machine);
        if (models.kernel.name, models.splits) == (winner.kernel.name, winner.splits) {
            return own;
        }
        let estimate = |plan: &Plan| model::seconds(plan, problem, machine);
        let Some((best, seconds)) = model::best_with(winner.kernel, problem, machine, winner.group) else {
            // Kernels of the book, of which there is no estimate.
            return if problem.plain || winner.kernel.signature == Signature::Call { winner } else { own };
        };
        // As many splits as won, if that is about as good for this size.
        let plan = if estimate(&winner).is_some_and(|estimate| estimate <= CLOSE * seconds) { winner } else { best };
        // By how much the estimates of this class are wrong.
        let error = |plan: Option<Plan>, seconds: f64| {
            let estimate = plan.and_then(|plan| model::seconds(&plan, &middle, machine));
            estimate.map_or(1.0, |estimate| seconds / estimate)
        };
        let winners = estimate(&plan).unwrap_or(seconds) * error(Some(won.winner), won.seconds);
        let is_better = estimate(&own).is_none_or(|own| winners <= own * error(won.model, won.model_seconds));
        if is_better { plan } else { own }
    }

    /// Classes that are known.
    pub fn len(&self) -> usize {
        self.winners.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.winners.is_empty()
    }
}

/// The one kernel of that name, of the book or a production kernel.
pub fn kernel(name: &str) -> Option<&'static Kernel> {
    match kernels::by_name(name) {
        Ok(Named::Kernel(kernel)) => Some(kernel),
        Ok(Named::Family(_) | Named::OnTensorCores(_)) | Err(_) => None,
    }
}

/// The tunings that come with this build.
pub fn shipped() -> Vec<TuneFile> {
    SHIPPED.iter().filter_map(|text| TuneFile::parse(text).ok()).collect()
}

/// The one of them for a GPU, if there is one.
pub fn shipped_for(key: &Key) -> Option<TuneFile> {
    of_gpu(SHIPPED, key)
}

/// The first of some tunings that is for a GPU of that name.
fn of_gpu(texts: &[&str], key: &Key) -> Option<TuneFile> {
    texts.iter().filter_map(|text| TuneFile::parse(text).ok()).find(|file| file.key.gpu == key.gpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::{class::Way, file::Winner};

    const H200: Machine = Machine { multiprocessors: 132, compute_capability: (9, 0) };
    const LARGE: &str = "pipelined_128x256x16_kv";
    const SMALL: &str = "pipelined_32x32x32x8_kv";

    fn class(m: usize) -> Class {
        Class { m, n: 1024, k: 1024, a: Way::AlongK, b: Way::Vectors }
    }

    fn winner(m: usize, kernel: &str, model: &str) -> Winner {
        Winner {
            class: class(m),
            kernel: kernel.to_owned(),
            splits: 2,
            group: 1,
            microseconds: 1.0,
            model: model.to_owned(),
            model_splits: 2,
            model_microseconds: 1.1,
        }
    }

    fn key(gpu: &str, driver: &str) -> Key {
        Key { gpu: gpu.to_owned(), driver: driver.to_owned(), build: "a build".to_owned() }
    }

    fn file(key: Key, winners: impl IntoIterator<Item = Winner>) -> TuneFile {
        let mut file = TuneFile::new(key);
        winners.into_iter().for_each(|winner| file.put(winner));
        file
    }

    fn tuned(winners: impl IntoIterator<Item = Winner>) -> Tuned {
        Tuned::of_file(&file(key("", ""), winners))
    }

    fn planned(tuned: &Tuned, problem: &Problem) -> (&'static str, u32) {
        let own = Plan { kernel: kernel("pipelined_64x128x16_kv").unwrap(), splits: 1, group: 8 };
        let plan = tuned.plan(problem, H200, own);
        (plan.kernel.name, plan.splits)
    }

    #[test]
    fn a_product_of_a_class_is_planned_as_what_won_it_and_one_of_another_class_as_the_model_has_it() {
        let tuned = tuned([winner(1024, SMALL, LARGE), winner(256, "of another build", LARGE)]);
        assert_eq!(tuned.len(), 1);
        assert_eq!(planned(&tuned, &class(1024).problem()), (SMALL, 2));
        for other in [class(2048), class(256), class(512), Class { b: Way::AlongK, ..class(1024) }] {
            assert_eq!(planned(&tuned, &other.problem()).0, "pipelined_64x128x16_kv", "{other:?}");
        }
        let batch = Problem { batch: 2, ..class(1024).problem() };
        assert_eq!(planned(&tuned, &batch).0, "pipelined_64x128x16_kv");
        assert_eq!(planned(&Tuned::none(), &class(1024).problem()).0, "pipelined_64x128x16_kv");
    }

    #[test]
    fn a_winner_that_cannot_multiply_its_class_is_as_good_as_none() {
        let columns = Class { a: Way::Vectors, ..class(1024) };
        let tuned = tuned([
            Winner { class: columns, ..winner(1024, "tiled", LARGE) },
            winner(256, "tensor_cores", LARGE),
            winner(512, "tiled", LARGE),
        ]);
        assert_eq!(tuned.len(), 1);
        assert_eq!(planned(&tuned, &class(512).problem()).0, "tiled");
    }

    #[test]
    fn where_the_winner_would_leave_multiprocessors_idle_the_models_choice_stays() {
        let class = Class { k: 64, ..class(4096) };
        // In the middle of the class it took what the model thinks, without splits, and the model's choice a tenth more.
        let microseconds = |kernel_name: &str, splits| {
            let plan = Plan { kernel: kernel(kernel_name).unwrap(), splits, group: 1 };
            1e6 * model::seconds(&plan, &class.problem(), H200).unwrap()
        };
        let tuned = tuned([Winner {
            class,
            microseconds: microseconds(LARGE, 2),
            model_splits: 1,
            model_microseconds: 1.1 * microseconds(LARGE, 1),
            ..winner(4096, LARGE, "pipelined_64x128x16_kv")
        }]);
        let of = |m| planned(&tuned, &Problem { m, ..class.problem() }).0;
        // 32 x 4 tiles for 132 multiprocessors, and then 34 x 4, which takes a second round.
        assert_eq!(of(4090), LARGE);
        assert_eq!(of(4300), "pipelined_64x128x16_kv");
    }

    #[test]
    fn where_the_model_is_right_in_the_middle_of_a_class_it_chooses_for_the_rest() {
        let models = plan::plan(&class(4096).problem(), H200);
        let won = |kernel: &str, splits| {
            tuned([Winner { splits, ..winner(4096, kernel, "whatever the model of that day chose") }])
        };
        let (same, other) = (won(models.kernel.name, models.splits), won(LARGE, models.splits + 1));
        let near = Problem { m: 4000, ..class(4096).problem() };
        assert_eq!(planned(&same, &class(4096).problem()), (models.kernel.name, models.splits));
        assert_eq!(planned(&same, &near), ("pipelined_64x128x16_kv", 1));
        assert_eq!(planned(&other, &class(4096).problem()), (LARGE, models.splits + 1));
    }

    #[test]
    fn the_users_own_tuning_comes_first_then_one_that_ships_for_the_gpu_whatever_the_driver() {
        let folder = tempfile::tempdir().unwrap();
        let known = |key: &Key, shipped: &[&str]| Tuned::for_key(key, Ok(folder.path().to_owned()), shipped);
        let [theirs, ours] = [("a GPU", "of yesterday"), ("another GPU", "of today")].map(|(gpu, driver)| {
            let own = winner(1024, SMALL, LARGE);
            file(key(gpu, driver), [own]).text()
        });
        let shipped = ["no tuning", ours.as_str(), theirs.as_str()];
        let today = key("a GPU", "of today");

        assert_eq!(known(&today, &[]).origin, Origin::None);
        assert_eq!(known(&key("a third GPU", "of today"), &shipped).origin, Origin::None);
        let without = Tuned::for_key(&today, Err(TuneFileError::NoFolder), &shipped);
        for tuned in [known(&today, &shipped), without] {
            assert_eq!((&tuned.origin, tuned.len(), &tuned.ignored), (&Origin::Shipped, 1, &None));
            assert_eq!(planned(&tuned, &class(1024).problem()), (SMALL, 2));
        }

        let path = file(today.clone(), [winner(1024, LARGE, SMALL)]).save(folder.path()).unwrap();
        let own = known(&today, &shipped);
        assert_eq!((&own.origin, &own.ignored), (&Origin::File(path.clone()), &None));
        assert_eq!(planned(&own, &class(1024).problem()), (LARGE, 2));

        std::fs::write(&path, "{").unwrap();
        let corrupt = known(&today, &shipped);
        assert_eq!(corrupt.origin, Origin::Shipped);
        assert!(corrupt.ignored.unwrap().contains("no tuning of this program's"));
    }

    #[test]
    fn the_tunings_that_come_with_this_build_can_be_read_and_name_its_kernels() {
        for text in SHIPPED {
            let file = TuneFile::parse(text).unwrap();
            for winner in &file.winners {
                assert!(kernel(&winner.kernel).is_some(), "{}", winner.kernel);
            }
        }
    }
}
