//! Who is measured: kernels, this library's own choice among them, and cuBLAS.

use gpu_kernels::Kernel;

use super::{BenchError, data::Copy, problem::Problem};
use crate::{
    cublas::{Cublas, Operand, Products},
    gemm::{DeviceMatrix, Gemm, GemmError},
    plan,
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
        let launches = |kernel: &Kernel| (kernel.launch_shape)(problem.m, problem.n, problem.k).is_some();
        match contender {
            Contender::Kernel(kernel) => problem.is_plain() && launches(kernel),
            Contender::Chosen => problem.is_plain(),
            Contender::Cublas => self.cublas.is_some(),
        }
    }

    /// The kernel that does a problem; `None` for cuBLAS, which doesn't say.
    pub fn kernel(&self, contender: Contender, problem: &Problem) -> Option<&'static Kernel> {
        match contender {
            Contender::Kernel(kernel) => Some(kernel),
            Contender::Chosen => Some(plan::choose(problem.m, problem.n, problem.k)),
            Contender::Cublas => None,
        }
    }

    /// Starts a problem's products in one copy of its matrices and returns without waiting for them.
    ///
    /// # Errors
    ///
    /// [`BenchError`] if a launch or cuBLAS fails, or if the contender can't do the problem.
    pub fn enqueue(&self, contender: Contender, problem: &Problem, copy: Copy<'_>) -> Result<(), BenchError> {
        match contender {
            Contender::Kernel(_) | Contender::Chosen => {
                let kernel = self.kernel(contender, problem).filter(|_| problem.is_plain());
                let refuse = || BenchError::NotTaken { contender: contender.name(), problem: *problem };
                let kernel = kernel.ok_or_else(refuse)?;
                let Problem { m, n, k, .. } = *problem;
                let a = DeviceMatrix::new(copy.a, copy.a_offset, m, k)?;
                let b = DeviceMatrix::new(copy.b, copy.b_offset, k, n)?;
                let c = DeviceMatrix::new(copy.c, copy.c_offset, m, n)?;
                self.gemm.enqueue(kernel, a, b, c).map_err(|error| match error {
                    GemmError::NoLaunch { .. } => refuse(),
                    error => error.into(),
                })
            }
            Contender::Cublas => {
                let refuse = || BenchError::NotTaken { contender: contender.name(), problem: *problem };
                Ok(self.cublas.ok_or_else(refuse)?.enqueue_products(&products(problem, copy))?)
            }
        }
    }
}

/// A problem's products as cuBLAS is told of them.
fn products<'a>(problem: &Problem, copy: Copy<'a>) -> Products<'a> {
    let Problem { m, n, k, op_a, op_b, batch } = *problem;
    Products {
        m,
        n,
        k,
        batch,
        alpha: 1.0,
        a: Operand {
            buffer: copy.a,
            offset: copy.a_offset,
            leading: op_a.stored(m, k).1,
            stride: m * k,
            transposed: op_a.is_transposed(),
        },
        b: Operand {
            buffer: copy.b,
            offset: copy.b_offset,
            leading: op_b.stored(k, n).1,
            stride: k * n,
            transposed: op_b.is_transposed(),
        },
        beta: 0.0,
        c: Operand { buffer: copy.c, offset: copy.c_offset, leading: n, stride: m * n, transposed: false },
    }
}
