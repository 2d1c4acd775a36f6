//! The promises of a module: there is a kernel in it, the driver can link it, and shared arrays are accessed as shared
//! memory.
use super::text::{Function, function_head, functions, shared_variable, words};
use crate::error::CudaBuilderError;

/// Functions that every CUDA driver defines.
const DRIVER_FUNCTIONS: [&str; 4] = ["vprintf", "malloc", "free", "__assertfail"];

/// Refuses the module of a crate without kernels. One whose kernels are all of other levels is empty, and that's no
/// mistake: so this looks before they are left out.
pub fn check_kernels(text: &str, crate_name: &str) -> Result<(), CudaBuilderError> {
    let is_entry = |line| matches!(function_head(line), Some((_, true)));
    if text.lines().any(is_entry) { Ok(()) } else { Err(CudaBuilderError::NoKernels(crate_name.to_owned())) }
}

/// Refuses a module that breaks a promise.
pub fn check(text: &str, crate_name: &str) -> Result<(), CudaBuilderError> {
    let functions = functions(text);
    let mut external = text.lines().filter(|line| line.starts_with(".extern .func")).filter_map(function_head);
    if let Some((function, _)) = external.find(|(name, _)| !DRIVER_FUNCTIONS.contains(name)) {
        return Err(CudaBuilderError::UndefinedFunction {
            crate_name: crate_name.to_owned(),
            function: function.to_owned(),
        });
    }
    let shared: Vec<&str> = text.lines().filter_map(shared_variable).collect();
    match functions.iter().find(|function| function.is_entry && accesses_shared_memory_generically(function, &shared)) {
        Some(function) => Err(CudaBuilderError::GenericSharedAccess { kernel: function.name.to_owned() }),
        None => Ok(()),
    }
}

/// Whether a function has a shared array, accesses some memory generically and none as shared memory. Pointers that
/// come from memory are generic by nature, so generic accesses beside shared ones are no fault.
fn accesses_shared_memory_generically(function: &Function, shared: &[&str]) -> bool {
    let has_array = function.body.iter().any(|line| words(line).any(|word| shared.contains(&word)));
    let instructions =
        || function.body.iter().filter_map(|line| words(line).find(|word| !word.starts_with(['%', '$'])));
    has_array
        && instructions().any(is_generic_access)
        && !instructions().any(|instruction| instruction.contains(".shared") && !instruction.starts_with("cvta"))
}

/// Whether an instruction reads or writes memory through a generic address.
fn is_generic_access(instruction: &str) -> bool {
    let mut parts = instruction.split('.');
    let is_access = matches!(parts.next(), Some("ld" | "st" | "atom" | "red"));
    is_access && !parts.any(|part| matches!(part, "global" | "shared" | "local" | "param" | "const"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(body: &str) -> String {
        format!(".shared .align 16 .b8 tile[64];\n.visible .entry kernel(\n)\n{{\n{body}\n}}\n")
    }

    #[test]
    fn shared_arrays_accessed_as_shared_memory_are_fine() {
        let text = module(
            "\tmov.u64 %rd1, tile; cvta.shared.u64 %rd1, %rd1;\n\t@%p1 ld.shared.b32 %r1, [%rd1];\n\tld.b32 %r2, [%rd9];",
        );
        assert!(check(&text, "kernels").is_ok());
    }

    #[test]
    fn shared_arrays_accessed_generically_are_refused_by_the_kernels_name() {
        let text = module("\tmov.u64 %rd1, tile; cvta.shared.u64 %rd1, %rd1;\n\tst.b32 [%rd1], %r1;");
        let error = check(&text, "kernels").unwrap_err().to_string();
        assert!(error.contains("`kernel`") && error.contains("shared_array!"), "{error}");
    }

    #[test]
    fn a_module_without_kernels_is_refused() {
        let error = check_kernels(".func helper(\n)\n{\n\tret;\n}\n", "kernels").unwrap_err().to_string();
        assert!(error.contains("no entry point"), "{error}");
    }

    #[test]
    fn a_call_that_nothing_answers_is_refused_and_the_drivers_own_functions_are_not() {
        let text = module("\tret;");
        let missing =
            format!(".extern .func  (.param .b32 func_retval0) expf\n(\n\t.param .b32 expf_param_0\n)\n;\n{text}");
        assert!(check(&missing, "kernels").unwrap_err().to_string().contains("`expf`"));
        let driver = format!(".extern .func  (.param .b32 func_retval0) vprintf\n(\n)\n;\n{text}");
        assert!(check(&driver, "kernels").is_ok());
    }
}
