//! Who is measured: kernels, this library's own choice among them, and cuBLAS.

use gpu_kernels::{KERNELS, Kernel, Precision, Signature};
use production_kernels::FAMILIES;

use super::{BenchError, data::Copy, problem::Problem};
use crate::{
    cublas::Cublas,
    gemm::{Gemm, ensure_sizes},
    kernels::{self, Named, UnknownKernel},
    plan::{self, Plan, model},
};

/// Somebody who can multiply matrices.
#[derive(Clone, Debug)]
pub enum Contender {
    /// A kernel, or a family of production kernels.
    Kernel {
        /// As users name it.
        name: String,
        /// The kernel; of a family the one runs that suits the matrices.
        named: Named,
        /// Parts of K.
        splits: u32,
        /// Rows of tiles that run side by side.
        group: u32,
    },
    /// What a user of the library gets who names no kernel.
    Chosen,
    /// NVIDIA's library.
    Cublas,
}

impl PartialEq for Contender {
    fn eq(&self, other: &Contender) -> bool {
        self.name() == other.name()
    }
}

impl Contender {
    /// What the library's own choice is called.
    pub const CHOSEN: &'static str = "gemm";

    /// What NVIDIA's library is called.
    pub const CUBLAS: &'static str = "cuBLAS";

    /// What it is called.
    pub fn name(&self) -> &str {
        match self {
            Contender::Kernel { name, .. } => name,
            Contender::Chosen => Contender::CHOSEN,
            Contender::Cublas => Contender::CUBLAS,
        }
    }

    /// The precision that it computes in; `None` for those who take any.
    pub fn precision(&self) -> Option<Precision> {
        match self {
            Contender::Kernel { named, .. } => Some(named.any().precision),
            Contender::Chosen | Contender::Cublas => None,
        }
    }

    /// Whether it is one of this project's.
    pub fn is_ours(&self) -> bool {
        !matches!(self, Contender::Cublas)
    }
}

/// A name of nobody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{unknown}; here also exercise and {}, groups ({}), and production kernels with the number of parts of K and of the rows of \
     tiles that run side by side, as in {}/4/8",
    Contender::CHOSEN,
    GROUPS.join(", "),
    FAMILIES[0].name
)]
pub struct UnknownContender {
    /// What is known besides.
    pub unknown: UnknownKernel,
}

/// Names of several contenders: the kernels of the book, the families of production kernels, and both with the library's own
/// choice.
pub const GROUPS: [&str; 3] = ["book", "production", "all"];

/// A production kernel with a number behind its name that is 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{name}' asks for 0 {what}: the number begins at 1; a production kernel takes the number of parts of K and that of the rows of \
     tiles that run side by side, as in {kernel}/4/8"
)]
pub struct NothingOf {
    /// The name with its numbers.
    pub name: String,
    /// The name without.
    pub kernel: &'static str,
    /// What is asked for none of.
    pub what: &'static str,
}

/// The contenders of that name: a kernel, `exercise`, a family of production kernels, `gemm`, or one of [`GROUPS`], which
/// have the kernels of `precision` in them. A kernel that is named may have another.
///
/// # Errors
///
/// [`UnknownContender`], which lists the known ones; [`NothingOf`] if a number behind a name is 0.
pub fn by_name(name: &str, precision: Precision) -> Result<Vec<Contender>, ContenderError> {
    match name {
        "book" => Ok(book(precision)),
        "production" => Ok(production(precision)),
        "all" => Ok([book(precision), production(precision), vec![Contender::Chosen]].concat()),
        Contender::CHOSEN => Ok(vec![Contender::Chosen]),
        _ => Ok(vec![of_name(name)?]),
    }
}

/// Contenders that can't stand in one table: what they compute isn't the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MixedPrecisions {
    /// A kernel of another precision.
    #[error(
        "'{contender}' computes in {has}, and what is compared here in {wanted}: leave it out, or give it a table of its own with \
         --precision {has}"
    )]
    Other {
        /// The kernel.
        contender: String,
        /// Its precision.
        has: &'static str,
        /// That of the comparison.
        wanted: &'static str,
    },
    /// Groups in which no kernel has the precision.
    #[error(
        "none of the kernels that are named computes in {wanted}: name others, or another precision with --precision"
    )]
    Nobody {
        /// The precision.
        wanted: &'static str,
    },
}

/// The contenders of these names, each once, and the precision that all compute in: the one that is asked for, else that of
/// the first kernel that is named, else f32.
///
/// # Errors
///
/// Those of [`by_name`]; [`MixedPrecisions`] if a kernel that is named has another precision, or if nobody is left.
pub fn by_names(names: &[String], asked: Option<Precision>) -> Result<(Vec<Contender>, Precision), ContenderError> {
    let of_first = || names.iter().find_map(|name| of_name(name).ok()?.precision());
    let precision = asked.or_else(of_first).unwrap_or(Precision::F32);
    let wanted = precision.name();
    let mut contenders: Vec<Contender> = Vec::new();
    for name in names {
        for contender in by_name(name, precision)? {
            if let Some(has) = contender.precision().filter(|has| *has != precision) {
                let contender = contender.name().to_owned();
                return Err(MixedPrecisions::Other { contender, has: has.name(), wanted }.into());
            }
            if !contenders.contains(&contender) {
                contenders.push(contender);
            }
        }
    }
    if contenders.is_empty() {
        return Err(MixedPrecisions::Nobody { wanted }.into());
    }
    Ok((contenders, precision))
}

/// Why names don't make a comparison.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContenderError {
    /// A name of nobody.
    #[error(transparent)]
    Unknown(#[from] UnknownContender),
    /// A number that is 0.
    #[error(transparent)]
    Nothing(#[from] NothingOf),
    /// Parts of K of a kernel that takes it as a whole.
    #[error("'{name}': kernels of fp32-tc take K as a whole; leave out what is behind the '/'")]
    Whole {
        /// The name with its numbers.
        name: String,
    },
    /// Names of contenders that can't be compared.
    #[error(transparent)]
    Mixed(#[from] MixedPrecisions),
}

/// The kernels of the book.
fn book(precision: Precision) -> Vec<Contender> {
    let kernels = KERNELS.iter().filter(|kernel| kernel.precision == precision);
    kernels.map(|kernel| of_kernel(Named::Kernel(kernel))).collect()
}

/// The families of production kernels.
fn production(precision: Precision) -> Vec<Contender> {
    let families = FAMILIES.iter().filter(|family| family.kernels[0].precision == precision).map(Named::Family);
    let on_tensor_cores = hopper_kernels::FAMILIES.iter().filter(|family| family.precision == precision);
    families.chain(on_tensor_cores.map(Named::OnTensorCores)).map(of_kernel).collect()
}

fn of_kernel(named: Named) -> Contender {
    Contender::Kernel { name: named.name().to_owned(), named, splits: 1, group: model::GROUP }
}

/// A kernel by its name with, if it's a production kernel and they follow, parts of K and rows of tiles.
fn of_name(text: &str) -> Result<Contender, ContenderError> {
    let unknown = || UnknownContender { unknown: UnknownKernel { name: text.to_owned() } };
    let Some((name, numbers)) = text.split_once('/') else {
        return Ok(kernels::by_name_or_exercise(text).map(of_kernel).map_err(|_| unknown())?);
    };
    let is_production = |kernel| plan::family_of(kernel).is_some() || hopper_kernels::family_of(kernel).is_some();
    let named = kernels::by_name(name).ok().filter(|named| is_production(named.any())).ok_or_else(unknown)?;
    let numbers = numbers.split('/').map(|number| number.parse().ok()).collect::<Option<Vec<u32>>>();
    let (splits, group) = match numbers.as_deref() {
        Some([splits]) => (*splits, model::GROUP),
        Some([splits, group]) => (*splits, *group),
        _ => return Err(unknown().into()),
    };
    let nothing = |what| NothingOf { name: text.to_owned(), kernel: named.name(), what };
    match (splits, group) {
        (0, _) => Err(nothing("parts of K").into()),
        (_, 0) => Err(nothing("rows of tiles").into()),
        (2.., _) if named.any().signature.takes_k_whole() => Err(ContenderError::Whole { name: text.to_owned() }),
        _ => Ok(Contender::Kernel { name: text.to_owned(), named, splits, group }),
    }
}

/// Those who take part in a comparison of square matrices when nobody is named: the ladder of the book and what the library
/// makes of it.
pub fn ladder(precision: Precision) -> Vec<Contender> {
    [book(precision), vec![Contender::Chosen]].concat()
}

/// Those who do the work, on one device.
#[derive(Clone, Copy, Debug)]
pub struct Hands<'a> {
    /// Kernels.
    pub gemm: &'a Gemm,
    /// cuBLAS, where it was found.
    pub cublas: Option<&'a Cublas>,
}

/// Whether a kernel that copies boxes can copy the matrices of a problem.
fn is_mappable(kernel: &Kernel, problem: &Problem) -> bool {
    let lie_so = problem.layouts().map(|layout| layout.by_columns) == kernels::by_columns(kernel);
    lie_so && ensure_sizes(kernel, [problem.m, problem.n, problem.k]).is_ok()
}

impl Hands<'_> {
    /// Whether a contender can do a problem at all.
    pub fn takes(&self, contender: &Contender, problem: &Problem) -> bool {
        match contender {
            Contender::Kernel { named, .. } => {
                let [a, b] = problem.layouts();
                let Ok(kernel) = named.for_layouts(a, b) else { return false };
                let suits = match kernel.signature {
                    Signature::Plain => problem.is_plain() && !problem.half_c,
                    Signature::Call | Signature::MappedCall(_) | Signature::MappedParts(_) => true,
                    Signature::Mapped(_) => problem.batch == 1 && !problem.half_c && is_mappable(kernel, problem),
                };
                suits && self.launches(kernel, problem)
            }
            Contender::Chosen => true,
            Contender::Cublas => self.cublas.is_some(),
        }
    }

    /// Whether a kernel has the problem's precision, and a launch for it on this device.
    fn launches(&self, kernel: &Kernel, problem: &Problem) -> bool {
        kernel.precision == problem.precision
            && kernel.architecture.runs_on(self.gemm.device().machine().compute_capability)
            && (kernel.launch_shape)(problem.m, problem.n, problem.k).is_some()
    }

    /// How a problem with its matrices in this copy is computed; `None` for cuBLAS, which doesn't say.
    ///
    /// # Errors
    ///
    /// [`BenchError`] if the matrices aren't inside their buffers.
    pub fn plan(
        &self,
        contender: &Contender,
        problem: &Problem,
        mut copy: Copy<'_>,
    ) -> Result<Option<Plan>, BenchError> {
        match contender {
            Contender::Kernel { named, splits, group, .. } => {
                let [a, b] = problem.layouts();
                Ok(Some(Plan { kernel: named.for_layouts(a, b)?, splits: *splits, group: *group }))
            }
            Contender::Chosen => {
                let (a, b, _) = copy.views()?;
                Ok(Some(self.gemm.product(a, b).precision(problem.precision).plan()?))
            }
            Contender::Cublas => Ok(None),
        }
    }

    /// Starts the products of a problem in one copy of its matrices and returns without waiting for them.
    ///
    /// # Errors
    ///
    /// [`BenchError`] if a launch or cuBLAS fails, or if the contender can't do the problem.
    pub fn enqueue(&self, contender: &Contender, problem: &Problem, mut copy: Copy<'_>) -> Result<(), BenchError> {
        if !self.takes(contender, problem) {
            return Err(BenchError::NotTaken { contender: contender.name().to_owned(), problem: *problem });
        }
        let (a, b, c) = copy.views()?;
        match (contender, self.cublas) {
            (Contender::Kernel { named, splits, group, .. }, _) => {
                let plan = Plan { kernel: named.any(), splits: *splits, group: *group };
                Ok(self.gemm.product(a, b).with_plan(plan).enqueue_into(c)?)
            }
            (Contender::Cublas, Some(cublas)) => Ok(cublas.enqueue_product(problem.precision, (1.0, 0.0), a, b, c)?),
            (Contender::Chosen | Contender::Cublas, _) => {
                Ok(self.gemm.product(a, b).precision(problem.precision).enqueue_into(c)?)
            }
        }
    }
}

/// What a plan is called: its kernel, and in how many parts the inner dimension is split if it is.
pub fn plan_name(plan: &Plan) -> String {
    match plan.splits {
        0 | 1 => plan.kernel.name.to_owned(),
        splits => format!("{} /{splits}", plan.kernel.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str) -> Contender {
        by_name(name, Precision::F32).unwrap_or_else(|error| panic!("{error}")).remove(0)
    }

    #[test]
    fn kernels_shapes_of_production_kernels_and_groups_have_names() {
        let found = |name: &str| match one(name) {
            Contender::Kernel { name: own, named, splits, group } => {
                assert_eq!(own, name);
                (named.name(), splits, group)
            }
            other => panic!("{other:?}"),
        };
        let family = FAMILIES[0].name;
        for name in ["tiled", "exercise", family, FAMILIES[0].kernels[3].name] {
            assert_eq!(found(name), (name, 1, model::GROUP));
        }
        assert_eq!(found(&format!("{family}/4")), (family, 4, model::GROUP));
        assert_eq!(found(&format!("{family}/1/16")), (family, 1, 16));
        assert_eq!(one("gemm"), Contender::Chosen);
        let count = |name| by_name(name, Precision::F32).unwrap().len();
        let of_f32 = gpu_kernels::KERNELS.iter().filter(|kernel| kernel.precision == Precision::F32).count();
        let families = production(Precision::F32).len();
        assert_eq!((count("book"), count("production")), (of_f32, families));
        assert_eq!(count("all"), of_f32 + families + 1);
    }

    #[test]
    fn those_who_are_compared_have_one_precision() {
        let compared = |names: &[&str], asked| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let (contenders, precision) = by_names(&names, asked).map_err(|error| error.to_string())?;
            Ok::<_, String>((
                contenders.iter().map(|contender| contender.name().to_owned()).collect::<Vec<_>>(),
                precision,
            ))
        };
        let said = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(compared(&["gemm", "tiled", "gemm"], None), Ok((said(&["gemm", "tiled"]), Precision::F32)));
        assert_eq!(compared(&["gemm", "tensor_cores"], None), Ok((said(&["gemm", "tensor_cores"]), Precision::Bf16)));
        let book = compared(&["book"], Some(Precision::Bf16)).unwrap();
        assert!(
            book.1 == Precision::Bf16
                && book.0.contains(&"tensor_cores".to_owned())
                && !book.0.contains(&"tiled".to_owned())
        );
        let error = compared(&["tensor_cores", "tiled"], None).unwrap_err();
        assert!(error.contains("'tiled' computes in f32") && error.contains("--precision f32"), "{error}");
        assert!(compared(&["tensor_cores"], Some(Precision::F32)).unwrap_err().contains("--precision bf16"));
        if production(Precision::Bf16).is_empty() {
            assert!(compared(&["production"], Some(Precision::Bf16)).unwrap_err().contains("bf16"));
        }
    }

    #[test]
    fn numbers_behind_a_name_begin_at_1_and_whoever_asks_for_0_is_told_so() {
        let family = FAMILIES[0].name;
        for (numbers, what) in [("0", "0 parts of K"), ("0/8", "0 parts of K"), ("4/0", "0 rows of tiles")] {
            let name = format!("{family}/{numbers}");
            let error = by_name(&name, Precision::F32).unwrap_err().to_string();
            let all = [&format!("'{name}' asks for {what}"), "begins at 1", &format!("{family}/4/8")];
            assert!(all.iter().all(|said| error.contains(*said)) && !error.contains("no kernel named"), "{error}");
        }
    }

    #[test]
    fn who_is_nobody_is_named_with_all_who_are_somebody() {
        let family = FAMILIES[0].name;
        for name in ["fast", "", "tiled/2", "cuBLAS", &format!("{family}/1/8/2"), &format!("{family}/x")] {
            let error = by_name(name, Precision::F32).unwrap_err().to_string();
            assert!(
                error.contains(&format!("'{name}'")) && error.contains(family) && error.contains("tiled_8"),
                "{error}"
            );
        }
    }
}
