//! Who is measured: kernels, this library's own choice among them, and cuBLAS.

use gpu_kernels::{Kernel, Signature};

use super::{BenchError, data::Copy, problem::Problem};
use crate::{
    cublas::Cublas,
    gemm::Gemm,
    plan::{self, Plan},
};

/// Somebody who can multiply matrices.
#[derive(Clone, Copy, Debug)]
pub enum Contender {
    /// One kernel.
    Kernel(&'static Kernel),
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
    pub fn name(self) -> &'static str {
        match self {
            Contender::Kernel(kernel) => kernel.name,
            Contender::Chosen => Contender::CHOSEN,
            Contender::Cublas => Contender::CUBLAS,
        }
    }

    /// Whether it is one of this project's.
    pub fn is_ours(self) -> bool {
        !matches!(self, Contender::Cublas)
    }
}

/// The contender of that name: a kernel of the list, `exercise`, or `gemm`.
///
/// # Errors
///
/// [`plan::UnknownKernel`], which lists the known ones.
pub fn by_name(name: &str) -> Result<Contender, plan::UnknownKernel> {
    if name == Contender::CHOSEN {
        Ok(Contender::Chosen)
    } else {
        plan::by_name_or_exercise(name).map(Contender::Kernel)
    }
}

/// Every kernel of the list, and the library's own choice.
pub fn all() -> Vec<Contender> {
    gpu_kernels::KERNELS.iter().map(Contender::Kernel).chain([Contender::Chosen]).collect()
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
    pub fn takes(&self, contender: Contender, problem: &Problem) -> bool {
        match contender {
            Contender::Kernel(kernel) => {
                let launches = || (kernel.launch_shape)(problem.m, problem.n, problem.k).is_some();
                (problem.is_plain() || kernel.signature == Signature::Call) && launches()
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
    pub fn plan(&self, contender: Contender, mut copy: Copy<'_>) -> Result<Option<Plan>, BenchError> {
        match contender {
            Contender::Kernel(kernel) => Ok(Some(Plan::new(kernel))),
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
    pub fn enqueue(&self, contender: Contender, problem: &Problem, mut copy: Copy<'_>) -> Result<(), BenchError> {
        if !self.takes(contender, problem) {
            return Err(BenchError::NotTaken { contender: contender.name(), problem: *problem });
        }
        let (a, b, c) = copy.views()?;
        match (contender, self.cublas) {
            (Contender::Kernel(kernel), _) => {
                Ok(self.gemm.product(a, b).with_plan(Plan::new(kernel)).enqueue_into(c)?)
            }
            (Contender::Cublas, Some(cublas)) => Ok(cublas.enqueue_product((1.0, 0.0), a, b, c)?),
            (Contender::Chosen | Contender::Cublas, _) => Ok(self.gemm.product(a, b).enqueue_into(c)?),
        }
    }
}

/// What a plan is called: its kernel, and how often the inner dimension is split.
pub fn plan_name(plan: &Plan) -> String {
    match plan.splits {
        0 | 1 => plan.kernel.name.to_owned(),
        splits => format!("{} /{splits}", plan.kernel.name),
    }
}
