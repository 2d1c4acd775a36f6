//! Who is measured: kernels, this library's own choice among them, and cuBLAS.

use gpu_kernels::{Kernel, Precision, Signature};
use production_kernels::FAMILIES;

use super::{BenchError, data::Copy, problem::Problem};
use crate::{
    cublas::Cublas,
    gemm::Gemm,
    plan::{self, Plan, model},
};

/// Somebody who can multiply matrices.
#[derive(Clone, Debug)]
pub enum Contender {
    /// A kernel of the book, or the kernels of one shape of tile among the production kernels.
    Kernel {
        /// As users name it.
        name: String,
        /// How it is launched. Of a production kernel, the one of the same shape runs that suits the matrices.
        plan: Plan,
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

    /// Whether it is one of this project's.
    pub fn is_ours(&self) -> bool {
        !matches!(self, Contender::Cublas)
    }
}

/// A name of nobody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no kernel named '{}'; known kernels: {}, {}, exercise, and by their tiles (in how many parts K is split and how many rows of tiles run side by side may follow, as in 128x128x16/4/8) {}; known groups: {}",
    .name.escape_debug(),
    Contender::CHOSEN,
    plan::names().join(", "),
    FAMILIES.iter().map(|family| family.name).collect::<Vec<_>>().join(", "),
    GROUPS.join(", ")
)]
pub struct UnknownContender {
    /// The name that was asked for.
    pub name: String,
}

/// Names of several contenders: the kernels of the book, the shapes of production kernels, and both with the library's own
/// choice.
pub const GROUPS: [&str; 3] = ["book", "production", "all"];

/// The contenders of that name: a kernel of the book, `exercise`, a shape of production kernels, `gemm`, or one of
/// [`GROUPS`].
///
/// # Errors
///
/// [`UnknownContender`], which lists the known ones.
pub fn by_name(name: &str) -> Result<Vec<Contender>, UnknownContender> {
    match name {
        "book" => Ok(book()),
        "production" => Ok(production()),
        "all" => Ok([book(), production(), vec![Contender::Chosen]].concat()),
        Contender::CHOSEN => Ok(vec![Contender::Chosen]),
        _ => {
            let known = plan::by_name_or_exercise(name).ok().map(of_book).or_else(|| of_family(name));
            known.map(|contender| vec![contender]).ok_or_else(|| UnknownContender { name: name.to_owned() })
        }
    }
}

/// The kernels of the book that take f32, as all others here do.
fn book() -> Vec<Contender> {
    gpu_kernels::KERNELS.iter().filter(|kernel| kernel.precision == Precision::F32).map(of_book).collect()
}

/// The shapes of production kernels.
fn production() -> Vec<Contender> {
    FAMILIES.iter().filter_map(|family| of_family(family.name)).collect()
}

fn of_book(kernel: &'static Kernel) -> Contender {
    Contender::Kernel { name: kernel.name.to_owned(), plan: Plan::new(kernel) }
}

/// A shape of production kernels, by its name with, if they follow, splits and rows of tiles.
fn of_family(text: &str) -> Option<Contender> {
    let mut parts = text.split('/');
    let name = parts.next()?;
    let family = FAMILIES.iter().find(|family| family.name == name)?;
    let mut number = |default| match parts.next() {
        Some(part) => part.parse::<u32>().ok().filter(|number| *number > 0),
        None => Some(default),
    };
    let (splits, group) = (number(1)?, number(model::GROUP)?);
    let plan = Plan { kernel: family.kernels.first()?, splits, group };
    parts.next().is_none().then(|| Contender::Kernel { name: text.to_owned(), plan })
}

/// Those who take part in a comparison of square matrices when nobody is named: the ladder of the book and what the library
/// makes of it.
pub fn ladder() -> Vec<Contender> {
    [book(), vec![Contender::Chosen]].concat()
}

/// Those who do the work, on one device.
#[derive(Clone, Copy, Debug)]
pub struct Hands<'a> {
    /// Kernels.
    pub gemm: &'a Gemm,
    /// cuBLAS, where it was found.
    pub cublas: Option<&'a Cublas>,
}

impl Hands<'_> {
    /// Whether a contender can do a problem at all.
    pub fn takes(&self, contender: &Contender, problem: &Problem) -> bool {
        match contender {
            Contender::Kernel { plan: Plan { kernel, .. }, .. } => {
                let launches = || (kernel.launch_shape)(problem.m, problem.n, problem.k).is_some();
                let device = self.gemm.device().machine().compute_capability;
                kernel.precision == Precision::F32
                    && (problem.is_plain() || kernel.signature == Signature::Call)
                    && kernel.architecture.compute_capability() <= device
                    && launches()
            }
            Contender::Chosen => true,
            Contender::Cublas => self.cublas.is_some(),
        }
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
            Contender::Kernel { plan, .. } => {
                let [a, b] = problem.layouts();
                Ok(Some(Plan { kernel: plan::suitable(plan.kernel, a, b), ..*plan }))
            }
            Contender::Chosen => {
                let (a, b, _) = copy.views()?;
                Ok(Some(self.gemm.product(a, b).plan()?))
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
            (Contender::Kernel { plan, .. }, _) => Ok(self.gemm.product(a, b).with_plan(*plan).enqueue_into(c)?),
            (Contender::Cublas, Some(cublas)) => Ok(cublas.enqueue_product((1.0, 0.0), a, b, c)?),
            (Contender::Chosen | Contender::Cublas, _) => Ok(self.gemm.product(a, b).enqueue_into(c)?),
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
        by_name(name).unwrap_or_else(|error| panic!("{error}")).remove(0)
    }

    #[test]
    fn kernels_shapes_of_production_kernels_and_groups_have_names() {
        let plan = |name: &str| match one(name) {
            Contender::Kernel { name: own, plan } => {
                assert_eq!(own, name);
                plan
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(plan("tiled").kernel.name, "tiled");
        assert_eq!(plan("exercise").kernel.name, "exercise");
        let family = &FAMILIES[0];
        let shape = plan(family.name);
        assert_eq!((shape.kernel.tile, shape.splits, shape.group), (family.tile, 1, model::GROUP));
        let shape = plan(&format!("{}/4", family.name));
        assert_eq!((shape.splits, shape.group), (4, model::GROUP));
        let shape = plan(&format!("{}/1/16", family.name));
        assert_eq!((shape.splits, shape.group), (1, 16));
        assert_eq!(one("gemm"), Contender::Chosen);
        let count = |name| by_name(name).unwrap().len();
        let of_f32 = gpu_kernels::KERNELS.iter().filter(|kernel| kernel.precision == Precision::F32).count();
        assert_eq!((count("book"), count("production")), (of_f32, FAMILIES.len()));
        assert_eq!(count("all"), of_f32 + FAMILIES.len() + 1);
    }

    #[test]
    fn who_is_nobody_is_named_with_all_who_are_somebody() {
        let family = FAMILIES[0].name;
        for name in [
            "fast",
            "",
            "tiled/2",
            "cuBLAS",
            &format!("{family}/0"),
            &format!("{family}/1/8/2"),
            &format!("{family}/x"),
        ] {
            let error = by_name(name).unwrap_err().to_string();
            assert!(
                error.contains(&format!("'{name}'")) && error.contains(family) && error.contains("tiled_8"),
                "{error}"
            );
        }
    }
}
