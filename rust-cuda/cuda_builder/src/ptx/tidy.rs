//! Removes from PTX what says nothing to an assembler or a reader: labels that nothing jumps to, shared variables that
//! nothing uses, an empty debug section, blank lines.
use std::collections::HashMap;

use super::text::{shared_variable, words};

/// The same module with less text.
pub fn tidy(text: &str) -> String {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for word in text.lines().flat_map(words) {
        *uses.entry(word).or_default() += 1;
    }
    let is_used = |name: &str| uses.get(name).is_some_and(|&count| count > 1);

    let mut tidied = String::with_capacity(text.len());
    let mut after_blank = true;
    for line in text.lines() {
        // LLVM marks places for debug information that this module doesn't have.
        let is_idle_label = line.strip_suffix(':').is_some_and(|label| is_place_mark(label) && !is_used(label));
        // cuda_std declares dynamic shared memory for every module; other crates may declare arrays for kernels left
        // out of this one.
        let is_idle_variable = shared_variable(line).is_some_and(|name| !is_used(name));
        let is_empty_section = line.trim_start().starts_with(".section") && line.trim_end().ends_with("{\t}");
        let is_blank = line.trim().is_empty();
        if is_idle_label || is_idle_variable || is_empty_section || is_blank && after_blank {
            continue;
        }
        after_blank = is_blank;
        tidied.push_str(line);
        tidied.push('\n');
    }
    tidied
}

fn is_place_mark(label: &str) -> bool {
    ["$L__tmp", "$L__func_begin", "$L__func_end"].iter().any(|prefix| label.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_labels_variables_and_sections_go_and_the_rest_stays() {
        let text = "\
.version 7.0

.extern .shared .align 128 .b8 dynamic[];
.shared .align 16 .b8 tile[1024];


.visible .entry add(
)
{
$L__func_begin0:
\tmov.u64 %rd1, tile;
$L__tmp1:
$L__BB0_1:
\tbra \t$L__BB0_1;
$L__tmp2:
\tbra \t$L__tmp2;
}
\t.section\t.debug_macinfo\t{\t}
";
        let tidied = "\
.version 7.0

.shared .align 16 .b8 tile[1024];

.visible .entry add(
)
{
\tmov.u64 %rd1, tile;
$L__BB0_1:
\tbra \t$L__BB0_1;
$L__tmp2:
\tbra \t$L__tmp2;
}
";
        assert_eq!(tidy(text), tidied);
        assert_eq!(tidy(tidied), tidied, "tidying twice changes nothing more");
    }

    #[test]
    fn a_name_that_starts_like_another_counts_by_itself() {
        let text = ".shared .align 16 .b8 array_1[4];\n.shared .align 16 .b8 array_10[4];\n\tmov.u64 %rd1, array_10;\n";
        assert_eq!(tidy(text), ".shared .align 16 .b8 array_10[4];\n\tmov.u64 %rd1, array_10;\n");
    }
}
