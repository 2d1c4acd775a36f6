//! Leaves out the entries of other levels.
//!
//! A kernel crate may be built for several levels, and each of its kernels belongs in the module of the lowest level
//! that has its instructions. A crate says so as data: a variable `level_of_ENTRY`, one `u32` with the compute
//! capability times ten. An entry of another level than the module's is left out, an entry that states none stays, and
//! the variables go.
//!
//! The code of all kernels is compiled at every level, since kernels of one level may share code with those of another.
use std::collections::HashMap;

use super::text::{Variable, function_head, variable};
use crate::error::CudaBuilderError;

const PREFIX: &str = "level_of_";

/// The same module with only those entries that are for `level`, a compute capability times ten, or for no level that
/// is stated.
pub fn of_level(text: &str, level: u32) -> Result<String, CudaBuilderError> {
    let mut levels: HashMap<&str, u32> = HashMap::new();
    for (entry, variable) in text.lines().filter_map(stated) {
        let Some([stated]) = variable.words() else {
            return Err(wrong(entry, "expected a variable of one u32, such as 80 for compute capability 8.0"));
        };
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

    #[test]
    fn a_module_has_the_entries_of_its_level_and_those_that_state_none() {
        let text = format!(
            ".visible .global .align 4 .u32 level_of_old = 70;\n{}{}.visible .global .align 4 .b8 level_of_new[4] = {{80}};\n{}// end\n",
            entry("old"),
            entry("new"),
            entry("any")
        );
        assert_eq!(of_level(&text, 70).unwrap(), format!("{}{}// end\n", entry("old"), entry("any")));
        assert_eq!(of_level(&text, 80).unwrap(), format!("{}{}// end\n", entry("new"), entry("any")));
        assert_eq!(of_level(&text, 90).unwrap(), format!("{}// end\n", entry("any")));
    }

    #[test]
    fn without_levels_nothing_changes() {
        let text = format!(".global .align 4 .u32 level = 70;\n{}", entry("any"));
        assert_eq!(of_level(&text, 70).unwrap(), text);
    }

    #[test]
    fn a_level_that_cannot_be_kept_is_refused_by_name() {
        let refusal = |variable: &str| of_level(&format!("{variable}\n{}", entry("add")), 70).unwrap_err().to_string();
        assert!(refusal(".global .align 4 .u32 level_of_add[2] = {70, 80};").contains("`level_of_add`"));
        let other = refusal(".global .align 4 .u32 level_of_sub = 70;");
        assert!(other.contains("`level_of_sub`") && other.contains("no such entry"), "{other}");
    }
}
