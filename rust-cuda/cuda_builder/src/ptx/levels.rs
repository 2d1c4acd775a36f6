//! Leaves out the entries of other levels.
//!
//! A kernel crate may be built for several levels, and each of its kernels belongs in the module of the lowest level
//! that has its instructions. A crate says so as data: a variable `level_of_ENTRY` of 16 bytes, which are the level's name,
//! such as `compute_90a`, and zeros behind it. An entry of another level than the module's is left out, an entry that
//! states none stays, and the variables go.
//!
//! The code of all kernels is compiled at every level, since kernels of one level may share code with those of another.
use std::collections::HashMap;

use super::text::{Variable, function_head, variable};
use crate::arch::NvvmArch;
use crate::error::CudaBuilderError;

const PREFIX: &str = "level_of_";

/// The same module with only those entries that are for `level`, or for no level that is stated.
pub fn of_level(text: &str, level: NvvmArch) -> Result<String, CudaBuilderError> {
    let mut levels: HashMap<&str, NvvmArch> = HashMap::new();
    for (entry, variable) in text.lines().filter_map(stated) {
        let stated = named(&variable).ok_or_else(|| {
            wrong(entry, "expected a variable of 16 bytes, a level's name such as `compute_80` and zeros behind it")
        })?;
        levels.insert(entry, stated);
    }

    let others: Vec<&str> = levels.iter().filter(|(_, stated)| **stated != level).map(|(entry, _)| *entry).collect();
    // LLVM names every entry in a comment too.
    let names_another = |line: &str| others.iter().any(|entry| line.strip_prefix("\t// .globl\t") == Some(entry));
    let mut kept = String::with_capacity(text.len());
    let mut leaving_out = false;
    for line in text.lines().filter(|line| stated(line).is_none() && !names_another(line)) {
        if let Some((entry, true)) = function_head(line) {
            leaving_out = levels.remove(entry).is_some_and(|stated| stated != level);
        }
        if !leaving_out {
            kept.push_str(line);
            kept.push('\n');
        } else if line == "}" {
            leaving_out = false;
        }
    }
    match levels.keys().min() {
        Some(entry) => Err(wrong(entry, "the module has no such entry")),
        None => Ok(kept),
    }
}

/// The entry whose level a line declares, and the variable.
fn stated(line: &str) -> Option<(&str, Variable<'_>)> {
    let variable = variable(line)?;
    Some((variable.name.strip_prefix(PREFIX)?, variable))
}

/// The level that a variable names.
fn named(variable: &Variable<'_>) -> Option<NvvmArch> {
    let bytes = variable.words::<4>()?.map(u32::to_le_bytes).concat();
    let name = bytes.split(|byte| *byte == 0).next()?;
    let is_whole = bytes[name.len()..].iter().all(|byte| *byte == 0);
    NvvmArch::ALL.iter().copied().find(|level| is_whole && level.to_string().as_bytes() == name)
}

fn wrong(entry: &str, reason: &'static str) -> CudaBuilderError {
    CudaBuilderError::Level { variable: format!("{PREFIX}{entry}"), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> String {
        format!(
            ".visible .entry {name}(\n\t.param .u64 {name}_param_0\n)\n.maxntid 32, 1, 1\n{{\n\t{{\n\tret;\n\t}}\n}}\n"
        )
    }

    /// The variable by which an entry states a level, as LLVM writes it.
    fn level(entry: &str, name: &str) -> String {
        let bytes: Vec<_> = name.bytes().map(|byte| byte.to_string()).collect();
        format!(".visible .global .align 1 .b8 level_of_{entry}[16] = {{{}}};\n", bytes.join(", "))
    }

    #[test]
    fn a_module_has_the_entries_of_its_level_and_those_that_state_none() {
        let [old, new, newest] = [("old", "compute_70"), ("new", "compute_90"), ("newest", "compute_90a")]
            .map(|(name, stated)| (entry(name), level(name, stated)));
        let text = format!("{}{}{}{}{}{}{}// end\n", old.1, old.0, newest.1, new.0, new.1, newest.0, entry("any"));
        let kept = |level| of_level(&text, level).unwrap();
        assert_eq!(kept(NvvmArch::Compute70), format!("{}{}// end\n", old.0, entry("any")));
        assert_eq!(kept(NvvmArch::Compute80), format!("{}// end\n", entry("any")));
        assert_eq!(kept(NvvmArch::Compute90), format!("{}{}// end\n", new.0, entry("any")));
        assert_eq!(kept(NvvmArch::Compute90a), format!("{}{}// end\n", newest.0, entry("any")));
    }

    #[test]
    fn without_levels_nothing_changes() {
        let text = format!(".global .align 4 .u32 level = 70;\n{}", entry("any"));
        assert_eq!(of_level(&text, NvvmArch::Compute70).unwrap(), text);
    }

    #[test]
    fn a_level_that_cannot_be_kept_is_refused_by_name() {
        let refusal = |variable: &str| {
            of_level(&format!("{variable}\n{}", entry("add")), NvvmArch::Compute70).unwrap_err().to_string()
        };
        for variable in [".global .align 4 .u32 level_of_add = 70;", &level("add", "compute_7"), &level("add", "")] {
            let error = refusal(variable);
            assert!(error.contains("`level_of_add`") && error.contains("16 bytes"), "{error}");
        }
        let other = refusal(&level("sub", "compute_70"));
        assert!(other.contains("`level_of_sub`") && other.contains("no such entry"), "{other}");
    }
}
