//! Kernels by their names: those of the book, the reader's own, and the production kernels.
//!
//! A production kernel has two names. Its family's, such as `128x256x16`, stands for the one of the family's kernels that can
//! copy the matrices at hand; its entry's, such as `pipelined_128x256x16_kv`, for that one kernel.

use std::sync::LazyLock;

use gpu_kernels::{KERNELS, Kernel};
use production_kernels::{Copying, FAMILIES, Family};

use crate::{
    gemm::{GemmError, ensure_sizes, packed_layout},
    plan::{self, Layout},
};

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub enum Named {
    /// One kernel, which takes what it can.
    Kernel(&'static Kernel),
    /// A family of production kernels, one of which can copy the matrices, however they lie.
    Family(&'static Family),
    /// The same of those for Hopper's tensor cores; what none can copy as it lies is packed.
    OnTensorCores(&'static hopper_kernels::Family),
}

/// A name of no kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no kernel named '{}'{}{}; known kernels: {}; production kernels by the family: {}, or by the entry, such as {} or {} \
     (list shows what they are)",
    .name.escape_debug(),
    suggestion(.name),
    of_numbers(.name),
    names().join(", "),
    families().join(", "),
    FAMILIES[0].kernels[0].name,
    hopper_kernels::FAMILIES[0].kernels[0].name
)]
pub struct UnknownKernel {
    /// The name that was asked for.
    pub name: String,
}

/// From this likeness on, of 0 to 1, a name may be a slip for another.
const ALIKE: f64 = 0.7;

/// The name that was probably meant, as a question.
fn suggestion(name: &str) -> String {
    let entries = production_entries().map(|kernel| kernel.name);
    let all = names().into_iter().chain(families()).chain(entries);
    let likeness = all.map(|known| (strsim::normalized_damerau_levenshtein(name, known), known));
    // Of those that are as alike, the first: the book's before families, and these before entries.
    let best = likeness.reduce(|best, other| if other.0 > best.0 { other } else { best });
    best.filter(|(likeness, _)| *likeness >= ALIKE)
        .map(|(_, known)| format!(" (did you mean '{known}'?)"))
        .unwrap_or_default()
}

/// The production kernels, each by itself: those of f32, then those for tensor cores.
fn production_entries() -> impl Iterator<Item = &'static Kernel> {
    let of_f32 = FAMILIES.iter().flat_map(|family| family.kernels);
    of_f32.chain(hopper_kernels::FAMILIES.iter().flat_map(|family| family.kernels))
}

/// What to say of a name with numbers behind it.
fn of_numbers(name: &str) -> &'static str {
    if name.contains('/') {
        " (NAME/SPLITS and NAME/SPLITS/GROUP, of production kernels, are for bench --kernels)"
    } else {
        ""
    }
}

/// The names of the book's kernels, in reading order.
pub fn names() -> Vec<&'static str> {
    KERNELS.iter().map(|kernel| kernel.name).collect()
}

/// The names of the families of production kernels, from the largest tile to the smallest, those of f32 first.
pub fn families() -> Vec<&'static str> {
    let on_tensor_cores = hopper_kernels::FAMILIES.iter().map(|family| family.name);
    FAMILIES.iter().map(|family| family.name).chain(on_tensor_cores).collect()
}

/// Finds a kernel to multiply with.
///
/// # Errors
///
/// [`UnknownKernel`], which lists the known ones.
pub fn by_name(name: &str) -> Result<Named, UnknownKernel> {
    let kernel = || KERNELS.iter().chain(production_entries()).find(|kernel| kernel.name == name).map(Named::Kernel);
    let family = FAMILIES.iter().find(|family| family.name == name).map(Named::Family);
    let on_tensor_cores =
        || hopper_kernels::FAMILIES.iter().find(|family| family.name == name).map(Named::OnTensorCores);
    family.or_else(on_tensor_cores).or_else(kernel).ok_or_else(|| UnknownKernel { name: name.to_owned() })
}

/// Finds a kernel to look into: one to multiply with, or the reader's own.
///
/// # Errors
///
/// As [`by_name`].
pub fn by_name_or_exercise(name: &str) -> Result<Named, UnknownKernel> {
    let exercise = &gpu_kernels::exercise::KERNEL;
    if name == exercise.name { Ok(Named::Kernel(exercise)) } else { by_name(name) }
}

impl Named {
    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Named::Kernel(kernel) => kernel.name,
            Named::Family(family) => family.name,
            Named::OnTensorCores(family) => family.name,
        }
    }

    /// The kernel itself; of a family the first, which is like the others but for the way it copies.
    pub fn any(self) -> &'static Kernel {
        match self {
            Named::Kernel(kernel) => kernel,
            Named::Family(family) => &family.kernels[0],
            Named::OnTensorCores(family) => &family.kernels[0],
        }
    }

    /// The kernel for matrices that lie so.
    ///
    /// # Errors
    ///
    /// [`GemmError::Layout`] if the name is that of one kernel, which can't copy them.
    pub fn for_layouts(self, a: Layout, b: Layout) -> Result<&'static Kernel, GemmError> {
        match self {
            Named::Kernel(kernel) => ensure_suits(kernel, a, b).map(|()| kernel),
            Named::Family(_) | Named::OnTensorCores(_) => Ok(plan::suitable(self.any(), a, b)),
        }
    }

    /// The kernel for row-major matrices without gaps, `m` x `k` and `k` x `n`.
    ///
    /// # Errors
    ///
    /// As [`for_layouts`](Named::for_layouts) and [`ensure_sizes`].
    pub fn for_rows(self, [m, n, k]: [usize; 3]) -> Result<&'static Kernel, GemmError> {
        ensure_sizes(self.any(), [m, n, k])?;
        let factors = self.any().precision.factors();
        self.for_layouts(packed_layout(factors, m, k, false), packed_layout(factors, k, n, false))
    }

    /// The kernel to look into with matrices of one's own making: those of an `m` x `n` product with inner dimension `k`
    /// that lie as the kernel likes them ([`by_columns`]), of a family by rows.
    ///
    /// # Errors
    ///
    /// [`GemmError::Layout`], or an error of [`ensure_sizes`], if their rows don't begin at multiples of 16 bytes where the
    /// kernel needs that.
    pub fn to_look_into(self, [m, n, k]: [usize; 3]) -> Result<&'static Kernel, GemmError> {
        ensure_sizes(self.any(), [m, n, k])?;
        let [a, b] = by_columns(self.any());
        let factors = self.any().precision.factors();
        self.for_layouts(packed_layout(factors, m, k, a), packed_layout(factors, k, n, b))
    }
}

/// Whether `kernel` can multiply matrices that lie so.
///
/// # Errors
///
/// [`GemmError::Layout`], which names the one of its family that can.
pub(crate) fn ensure_suits(kernel: &Kernel, a: Layout, b: Layout) -> Result<(), GemmError> {
    if let Some(family) = hopper_kernels::family_of(kernel) {
        let fitting = plan::suitable(&family.kernels[0], a, b);
        return match fitting.name == kernel.name {
            true => Ok(()),
            false => Err(GemmError::Layout { kernel: kernel.name, fitting: fitting.name, family: family.name }),
        };
    }
    match plan::family_of(kernel) {
        Some((family, _)) if !plan::suits(kernel, a, b) => {
            let fitting = plan::suitable(&family.kernels[0], a, b).name;
            Err(GemmError::Layout { kernel: kernel.name, fitting, family: family.name })
        }
        _ => Ok(()),
    }
}

/// Whether A and B have to lie by columns for `kernel`, instead of by rows.
pub fn by_columns(kernel: &Kernel) -> [bool; 2] {
    if let Some(operands) = kernel.signature.mapped() {
        return [operands.a.by_columns, operands.b.by_columns];
    }
    plan::family_of(kernel).map_or([false; 2], |(_, (a, b))| [a != Copying::AlongK, b == Copying::AlongK])
}

/// The source of every kernel's file: its name as line directives in the PTX have it, and its text.
pub fn sources() -> &'static [(&'static str, &'static str)] {
    macro_rules! of_crate {
        ($crate_name:literal $($name:literal)*) => {
            [$((
                concat!("gpu-kernels/", $crate_name, "/src/", $name, ".rs"),
                include_str!(concat!("../../gpu-kernels/", $crate_name, "/src/", $name, ".rs")),
            )),*]
        };
    }
    const PRODUCTION: &[(&str, &str)] =
        &of_crate!["production" "pipelined" "operand" "output" "pack" "block_order" "reduce" "entries"];
    const HOPPER: &[(&str, &str)] =
        &of_crate!["hopper" "pipelined" "parts" "turned" "pack" "reduce" "output" "split" "ieee" "entries"];
    static ALL: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| [gpu_kernels::SOURCES, PRODUCTION, HOPPER].concat());
    &ALL
}

/// The text of a line of a kernel's file.
pub fn source_line(file: &str, line: u32) -> Option<&'static str> {
    let (_, text) = sources().iter().find(|(name, _)| file.ends_with(name))?;
    text.lines().nth(line.checked_sub(1)? as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: Layout = Layout { by_columns: false, mappable: true, aligned: true };

    #[test]
    fn every_kernel_is_found_by_its_name_and_every_family_by_its_own() {
        let production = FAMILIES.iter().flat_map(|family| family.kernels);
        for kernel in KERNELS.iter().chain(production) {
            assert!(matches!(by_name(kernel.name), Ok(Named::Kernel(found)) if found.entry == kernel.entry));
        }
        for family in FAMILIES {
            assert!(matches!(by_name(family.name), Ok(Named::Family(found)) if found.name == family.name));
        }
        assert!(by_name("exercise").is_err() && by_name_or_exercise("exercise").is_ok());
    }

    #[test]
    fn a_name_of_nobody_is_told_with_all_who_are_somebody() {
        let error = by_name("titled\n").unwrap_err().to_string();
        for text in ["'titled\\n'", "naive", FAMILIES[0].name, "pipelined_"] {
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_family_takes_matrices_however_they_lie_and_a_kernel_only_those_that_it_can_copy() {
        let family = by_name("128x256x16").unwrap();
        let words = Layout { mappable: false, aligned: false, ..ROWS };
        let columns = Layout { by_columns: true, ..ROWS };
        for (a, b, kernel) in [(ROWS, ROWS, "kv"), (ROWS, words, "kw"), (columns, ROWS, "vv"), (columns, columns, "vk")]
        {
            let kernel = format!("pipelined_128x256x16_{kernel}");
            assert_eq!(family.for_layouts(a, b).unwrap().name, kernel);
            assert_eq!(by_name(&kernel).unwrap().for_layouts(a, b).unwrap().name, kernel);
        }
        // What is copied word by word may be aligned too.
        assert!(by_name("pipelined_128x256x16_kw").unwrap().for_layouts(ROWS, ROWS).is_ok());
        let error = by_name("pipelined_128x256x16_kv").unwrap().for_layouts(ROWS, words).unwrap_err().to_string();
        assert!(error.contains("pipelined_128x256x16_kw") && error.contains("'128x256x16'"), "{error}");
    }

    #[test]
    fn a_kernel_can_be_looked_into_with_matrices_as_it_likes_them() {
        for kernel in FAMILIES.iter().flat_map(|family| family.kernels) {
            let found = by_name(kernel.name).unwrap().to_look_into([8, 12, 16]).unwrap();
            assert_eq!(found.entry, kernel.entry);
        }
        assert!(by_name("pipelined_64x64x16_vk").unwrap().to_look_into([7, 12, 16]).is_err());
    }

    #[test]
    fn the_sources_have_the_names_that_line_directives_of_the_ptx_have() {
        let own = |name: &str| name.starts_with("gpu-kernels/") && !name.starts_with("gpu-kernels/common/");
        for module in crate::ptx::MODULES {
            let named = module.text.lines().filter_map(|line| line.trim().strip_prefix(".file"));
            for name in named.filter_map(|line| line.split('"').nth(1)).filter(|name| own(name)) {
                assert!(sources().iter().any(|(known, _)| *known == name), "{name}");
            }
        }
        assert_eq!(source_line("x/gpu-kernels/src/naive.rs", 0), None);
        assert!(source_line("gpu-kernels/production/src/reduce.rs", 1).unwrap().starts_with("//!"));
    }
}
