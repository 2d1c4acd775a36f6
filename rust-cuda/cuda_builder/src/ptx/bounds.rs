//! Turns launch bounds into directives.
//!
//! rustc has no attribute for them, so a kernel crate states them as data: a variable `launch_bounds_of_ENTRY` of six
//! `u32`, which are the threads of a block along x, y and z, the blocks that a multiprocessor must have registers for,
//! the most registers of a thread, and the blocks of a cluster along x. 0 says nothing; threads are all three stated or
//! none. Here they become `.maxntid`, `.minnctapersm`, `.maxnreg` and `.reqnctapercluster` between the entry's
//! parameters and its body, and the variable goes.
use std::collections::HashMap;

use super::text::{Variable, function_head, variable};
use crate::error::CudaBuilderError;

const PREFIX: &str = "launch_bounds_of_";

/// The same module with its launch bounds as directives.
pub fn bound(text: &str) -> Result<String, CudaBuilderError> {
    let mut bounds: HashMap<&str, Vec<String>> = HashMap::new();
    for (entry, variable) in text.lines().filter_map(stated) {
        bounds.insert(entry, directives(entry, &variable)?);
    }

    let mut bounded = String::with_capacity(text.len());
    let mut pending: Option<Vec<String>> = None;
    for line in text.lines().filter(|line| stated(line).is_none()) {
        if let Some((entry, true)) = function_head(line) {
            pending = bounds.remove(entry);
        }
        if line == "{" {
            for directive in pending.take().into_iter().flatten() {
                bounded.push_str(&directive);
                bounded.push('\n');
            }
        }
        bounded.push_str(line);
        bounded.push('\n');
    }
    match bounds.keys().min() {
        Some(entry) => Err(wrong(entry, "the module has no such entry")),
        None => Ok(bounded),
    }
}

/// The entry whose bounds a line declares, and the variable.
fn stated(line: &str) -> Option<(&str, Variable<'_>)> {
    let variable = variable(line)?;
    Some((variable.name.strip_prefix(PREFIX)?, variable))
}

fn directives(entry: &str, variable: &Variable) -> Result<Vec<String>, CudaBuilderError> {
    let [x, y, z, blocks, registers, cluster] =
        variable.words().ok_or_else(|| wrong(entry, "expected a variable of six u32, such as [256, 1, 1, 2, 0, 0]"))?;
    let mut directives = Vec::new();
    match (x, y, z) {
        (0, 0, 0) if blocks > 0 => {
            return Err(wrong(entry, "blocks per multiprocessor mean nothing without the threads of a block"));
        }
        (0, 0, 0) => {}
        (0, _, _) | (_, 0, _) | (_, _, 0) => {
            return Err(wrong(entry, "threads of a block are stated along x, y and z, or not at all"));
        }
        _ if [x, y, z].iter().map(|&threads| u64::from(threads)).product::<u64>() > 1024 => {
            return Err(wrong(entry, "a block has at most 1024 threads"));
        }
        _ => directives.push(format!(".maxntid {x}, {y}, {z}")),
    }
    match (blocks, registers) {
        (0, 0) => {}
        (blocks, 0) => directives.push(format!(".minnctapersm {blocks}")),
        (0, registers) => directives.push(format!(".maxnreg {registers}")),
        _ => return Err(wrong(entry, "state blocks per multiprocessor or registers of a thread, not both")),
    }
    match cluster {
        0 => {}
        // What every GPU that has clusters allows; larger ones are for some, and a launch has to ask for them.
        1..=8 => directives.push(format!(".reqnctapercluster {cluster}, 1, 1")),
        _ => return Err(wrong(entry, "a cluster has at most 8 blocks")),
    }
    Ok(directives)
}

fn wrong(entry: &str, reason: &'static str) -> CudaBuilderError {
    CudaBuilderError::LaunchBounds { variable: format!("{PREFIX}{entry}"), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(variable: &str) -> String {
        format!("{variable}\n.visible .entry add(\n\t.param .u64 add_param_0\n)\n{{\n\tret;\n}}\n")
    }

    fn head(variable: &str) -> String {
        let bounded = bound(&module(variable)).unwrap();
        let (before, body) = bounded.split_once("{\n").unwrap();
        assert_eq!(body, "\tret;\n}\n");
        before.split_once(")\n").unwrap().1.to_owned()
    }

    fn refusal(variable: &str) -> String {
        bound(&module(variable)).unwrap_err().to_string()
    }

    #[test]
    fn bounds_stand_between_parameters_and_body_and_the_variable_is_gone() {
        let bytes = ".visible .global .align 4 .b8 launch_bounds_of_add[24] = {0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2};";
        assert_eq!(head(bytes), ".maxntid 256, 1, 1\n.minnctapersm 2\n");
        assert!(!bound(&module(bytes)).unwrap().contains("launch_bounds"));
        let words = ".visible .global .align 4 .u32 launch_bounds_of_add[6] = {32, 8, 1, 0, 96};";
        assert_eq!(head(words), ".maxntid 32, 8, 1\n.maxnreg 96\n");
        let cluster = ".visible .global .align 4 .u32 launch_bounds_of_add[6] = {384, 1, 1, 1, 0, 2};";
        assert_eq!(head(cluster), ".maxntid 384, 1, 1\n.minnctapersm 1\n.reqnctapercluster 2, 1, 1\n");
    }

    #[test]
    fn without_bounds_nothing_changes() {
        let text = module(".visible .global .align 4 .u32 table[5] = {1, 2, 3, 4, 5};");
        assert_eq!(bound(&text).unwrap(), text);
        assert_eq!(head(".visible .global .align 4 .b8 launch_bounds_of_add[24];"), "");
    }

    #[test]
    fn bounds_of_one_entry_leave_the_next_alone() {
        let text = module(".visible .global .align 4 .u32 launch_bounds_of_add[6] = {64, 1, 1};");
        let text = format!("{text}.visible .entry plain(\n)\n{{\n\tret;\n}}\n");
        assert_eq!(bound(&text).unwrap().matches(".maxntid").count(), 1);
    }

    #[test]
    fn bounds_that_cannot_be_met_are_refused_by_name() {
        let stated = |values: &str| refusal(&format!(".global .align 4 .u32 launch_bounds_of_add[6] = {{{values}}};"));
        assert!(stated("64, 0, 1").contains("along x, y and z"));
        assert!(stated("64, 32, 1").contains("1024"));
        assert!(stated("0, 0, 0, 2").contains("nothing without"));
        assert!(stated("64, 1, 1, 2, 96").contains("not both"));
        assert!(stated("64, 1, 1, 1, 0, 9").contains("8 blocks"));
        assert!(refusal(".global .align 4 .u32 launch_bounds_of_add[3] = {64, 1, 1};").contains("six u32"));
        let other = refusal(".global .align 4 .u32 launch_bounds_of_sub[6] = {64, 1, 1};");
        assert!(other.contains("launch_bounds_of_sub") && other.contains("no such entry"), "{other}");
    }
}
