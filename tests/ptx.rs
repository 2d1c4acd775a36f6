//! Promises about the PTX that this build carries, read off its text.

use gpu_kernels::{Architecture, KERNELS, Kernel, Precision, Signature};
use host::ptx;

/// The instructions of a kernel, one a line: no comments, no directives but labels.
fn body(kernel: &Kernel) -> Vec<&'static str> {
    let text = ptx::module_for(kernel.architecture).expect("every level is built").text;
    let start = text.find(&format!(".entry {}(", kernel.entry)).expect("every kernel of the list is in its module");
    let lines = text[start..].lines().map(|line| line.split("//").next().unwrap().trim());
    lines.skip_while(|line| *line != "{").take_while(|line| *line != "}").filter(|line| !line.is_empty()).collect()
}

/// The mnemonic of a line, without its guard.
fn mnemonic(line: &str) -> &str {
    let line =
        if line.starts_with('@') { line.split_once(char::is_whitespace).map_or("", |(_, rest)| rest) } else { line };
    line.split(|character: char| character.is_whitespace() || character == ';').next().unwrap_or("")
}

fn count(lines: &[&str], wanted: impl Fn(&str) -> bool) -> usize {
    lines.iter().filter(|line| wanted(mnemonic(line))).count()
}

/// The lines between the target of the last backward branch and that branch: the kernel's loop, in text order.
fn outer_loop<'a>(lines: &'a [&'static str]) -> &'a [&'static str] {
    let label = |name: &str| lines.iter().position(|line| line.strip_suffix(':') == Some(name));
    let backward = lines.iter().enumerate().filter_map(|(at, line)| {
        let target =
            mnemonic(line).starts_with("bra").then(|| line.trim_end_matches(';').split_whitespace().next_back())?;
        let target = label(target?)?;
        (target < at).then_some((target, at))
    });
    let (first, last) = backward.fold((usize::MAX, 0), |(first, last), (target, at)| (first.min(target), last.max(at)));
    assert!(first < last, "there is no loop");
    &lines[first..=last]
}

#[test]
fn every_kernel_is_in_the_module_of_its_level() {
    for kernel in KERNELS {
        assert!(!body(kernel).is_empty(), "{}", kernel.name);
    }
}

#[test]
fn a_kernel_is_in_no_module_of_another_level() {
    for kernel in KERNELS {
        for module in ptx::MODULES.iter().filter(|module| module.architecture != kernel.architecture) {
            let entry = format!(".entry {}(", kernel.entry);
            assert!(!module.text.contains(&entry), "{} is in {}", kernel.name, module.name);
        }
    }
}

#[test]
fn modules_are_for_the_level_they_claim() {
    for module in ptx::MODULES {
        let target = format!(".target {}", module.architecture.name().replace("compute", "sm"));
        assert!(module.text.lines().any(|line| line.trim() == target), "{}", module.name);
        assert!(module.name.ends_with(module.architecture.name()), "{}", module.name);
        assert!(module.text.contains(".address_size 64"));
    }
}

#[test]
fn shared_memory_is_reached_by_shared_loads_and_stores_only() {
    let lines = body(&gpu_kernels::tiled::KERNEL);
    assert!(count(&lines, |name| name.starts_with("ld.shared")) > 0);
    assert!(count(&lines, |name| name.starts_with("st.shared")) > 0);
    for kernel in KERNELS {
        let lines = body(kernel);
        let generic = count(&lines, |name| {
            let mut parts = name.split('.');
            let access = matches!(parts.next(), Some("ld" | "st"));
            access && !parts.any(|part| matches!(part, "shared" | "global" | "param" | "const"))
        });
        assert_eq!(generic, 0, "{} has generic loads or stores", kernel.name);
    }
}

#[test]
fn the_tiled_loop_has_exactly_two_barriers_and_none_is_elsewhere() {
    let lines = body(&gpu_kernels::tiled::KERNEL);
    let barrier = |name: &str| name.starts_with("bar.sync") || name.starts_with("barrier");
    assert_eq!(count(outer_loop(&lines), barrier), 2);
    assert_eq!(count(&lines, barrier), 2);
}

#[test]
fn the_tiled_product_is_unrolled_into_fused_multiply_adds() {
    let lines = body(&gpu_kernels::tiled::KERNEL);
    let inside = outer_loop(&lines);
    assert_eq!(count(inside, |name| name == "fma.rn.f32"), gpu_kernels::tiled::TILE);
    assert_eq!(
        count(inside, |name| name.starts_with("mul.lo") || name.starts_with("mad.lo")),
        0,
        "index products belong before the loop"
    );
}

#[test]
fn sums_are_fused_and_never_split_into_multiply_and_add() {
    for kernel in KERNELS.iter().filter(|kernel| kernel.precision == Precision::F32) {
        let lines = body(kernel);
        assert!(count(&lines, |name| name.starts_with("fma.rn.f32")) > 0, "{}", kernel.name);
        let float = |name: &str, operation| name.starts_with(operation) && name.ends_with("f32");
        // Sums of slices of k are added up: 8 for each element of a vector in each half, with and without alignment.
        let added = if kernel.name == "k_slices" { 8 * 4 * 2 * 2 } else { 0 };
        assert_eq!(count(&lines, |name| float(name, "add")), added, "{}", kernel.name);
        // alpha is a factor of a whole sum, outside the loop.
        let lines = if kernel.signature == Signature::Call { outer_loop(&lines) } else { &lines };
        assert_eq!(count(lines, |name| float(name, "mul")), 0, "{}", kernel.name);
    }
}

#[test]
fn no_kernel_uses_local_memory() {
    for kernel in KERNELS {
        let text = body(kernel).join("\n");
        assert!(!text.contains(".local") && !text.contains("%SP"), "{} has local memory", kernel.name);
    }
}

#[test]
fn copies_and_barriers_in_halves_are_where_the_lessons_say() {
    // Text written into a kernel may have several instructions in a line.
    let counts = |kernel: &Kernel, wanted: &str| body(kernel).iter().filter(|line| line.contains(wanted)).count();
    for kernel in KERNELS {
        let is_async = counts(kernel, "cp.async.c") > 0;
        assert_eq!(is_async, kernel.architecture == Architecture::Compute80, "{}", kernel.name);
        // What was asked for is waited for before the kernel ends.
        assert_eq!(is_async, counts(kernel, "cp.async.wait_group") > 0, "{}", kernel.name);
    }
    for kernel in [gpu_kernels::split_barrier::KERNEL, gpu_kernels::block_order::KERNEL] {
        // One step and the part before the first, with and without alignment.
        assert_eq!(counts(&kernel, "mbarrier.init"), 2, "{}", kernel.name);
        assert_eq!(counts(&kernel, "mbarrier.arrive"), 2, "{}", kernel.name);
        assert_eq!(counts(&kernel, "mbarrier.test_wait"), 2, "{}", kernel.name);
        assert_eq!(counts(&kernel, "bar.sync"), 2, "{}", kernel.name);
    }
}

#[test]
fn tensor_cores_are_where_the_lesson_says() {
    let lines = body(&gpu_kernels::tensor_cores::KERNEL);
    // A step, with and without alignment: 4 x 8 products and 8 loads for each of 2 parts, and loads before the first step.
    assert_eq!(count(&lines, |name| name == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"), 2 * 2 * 32);
    assert_eq!(count(&lines, |name| name == "ldmatrix.sync.aligned.m8n8.x4.shared.b16"), 2 * (2 + 1) * 4);
    assert_eq!(count(&lines, |name| name == "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"), 2 * (2 + 1) * 4);
    assert_eq!(count(&lines, |name| name.starts_with("fma.")), 0);
}

#[test]
fn nothing_can_panic_or_call_out() {
    for module in ptx::MODULES {
        assert!(!module.text.contains(".func"), "kernels are whole: no calls, no panic paths");
    }
}

#[test]
fn neighbouring_reads_of_an_aligned_row_are_one_instruction() {
    let tiled = body(&gpu_kernels::tiled::KERNEL);
    assert_eq!(count(&tiled, |name| name == "ld.shared.v4.b32"), gpu_kernels::tiled::TILE / 4, "the rows of A's tile");
    assert_eq!(count(&tiled, |name| name == "ld.shared.b32"), gpu_kernels::tiled::TILE, "the columns of B's tile");
    // Both tiles lie along rows; with a word of padding or with words exchanged, only A's rows are still aligned.
    let wide = |kernel| count(&body(kernel), |name| name == "ld.shared.v4.b32");
    assert_eq!(wide(&gpu_kernels::conflicted::KERNEL), 16);
    assert_eq!(wide(&gpu_kernels::padded::KERNEL), 8);
    assert_eq!(wide(&gpu_kernels::swizzled::KERNEL), 8);
}

#[test]
fn barriers_and_multiply_adds_carry_the_line_of_the_kernel_that_asks_for_them() {
    for kernel in KERNELS {
        let text = ptx::module_for(kernel.architecture).unwrap().text;
        // Kernels of one family share the file of the first of them.
        let kernel_files: Vec<_> = text
            .lines()
            .filter(|line| line.trim().starts_with(".file") && line.contains("\"gpu-kernels/src/"))
            .map(|line| line.split_whitespace().nth(1).unwrap())
            .collect();
        let mut number = "";
        for line in body(kernel) {
            let words: Vec<_> = line.split_whitespace().collect();
            match words[0] {
                ".loc" => number = words[1],
                "bar.sync" | "fma.rn.f32" => assert!(kernel_files.contains(&number), "{}: {line}", kernel.name),
                _ => {}
            }
        }
    }
}

#[test]
fn instructions_carry_the_lines_of_the_kernel_sources() {
    for module in ptx::MODULES.iter().filter(|module| module.source == ptx::Source::Book) {
        let files: Vec<_> = module.text.lines().filter(|line| line.trim().starts_with(".file")).collect();
        for kernel in KERNELS.iter().filter(|kernel| kernel.architecture == module.architecture) {
            let name = format!("gpu-kernels/src/{}.rs", kernel.name);
            assert!(files.iter().any(|line| line.contains(&name)), "{name}: {files:?}");
        }
        let has_lines = module.text.lines().any(|line| line.trim().starts_with(".loc"));
        assert!(has_lines || !module.text.contains(".entry"), "{}", module.name);
    }
}

#[test]
fn launch_bounds_are_directives_of_the_kernels_that_state_them_and_of_no_others() {
    for kernel in KERNELS {
        let text = ptx::module_for(kernel.architecture).expect("every level is built").text;
        let entry = text.split_once(&format!(".entry {}(", kernel.entry)).expect("every kernel is in its module").1;
        let head: Vec<&str> = entry.split_once("\n{").unwrap().0.lines().map(str::trim).collect();
        let directive = |name: &str| head.iter().find_map(|line| line.strip_prefix(name).map(str::trim));
        let [x, y, z, blocks, registers, cluster] = kernel.launch_bounds();
        let stated = |value: u32| (value > 0).then(|| value.to_string());
        assert_eq!(
            directive(".maxntid").map(str::to_owned),
            (x > 0).then(|| format!("{x}, {y}, {z}")),
            "{}",
            kernel.name
        );
        assert_eq!(directive(".minnctapersm").map(str::to_owned), stated(blocks), "{}", kernel.name);
        assert_eq!(directive(".maxnreg").map(str::to_owned), stated(registers), "{}", kernel.name);
        let clusters = directive(".reqnctapercluster").map(str::to_owned);
        assert_eq!(clusters, stated(cluster).map(|blocks| format!("{blocks}, 1, 1")), "{}", kernel.name);
        assert!(!text.contains("launch_bounds_of"), "the variables that stated them are gone");
        let (parameters, _) = entry.split_once("\n)").expect("a list of parameters ends");
        let unaligned = parameters.lines().any(|line| line.contains(".align 16") && line.contains("[128]"));
        assert!(!unaligned, "{}: a tensor map lies at a multiple of 64 bytes", kernel.name);
    }
    assert!(KERNELS.iter().any(|kernel| kernel.launch_bounds() != [0; 6]));
}

#[test]
fn the_shared_memory_that_a_kernel_says_it_takes_is_what_its_ptx_declares() {
    for kernel in KERNELS {
        let text = ptx::module_for(kernel.architecture).expect("every level is built").text;
        let module = ptx_simulator::Module::parse(text).unwrap();
        let declared =
            module.kernel(kernel.entry).expect("every kernel of the list is in its module").static_shared_bytes;
        assert_eq!(declared, kernel.shared_bytes, "{}", kernel.name);
    }
}

#[test]
fn a_kernels_own_module_has_its_entry_word_for_word_and_no_other() {
    for kernel in KERNELS {
        let module = ptx::module_with(kernel.entry).expect("every kernel of the list is in a module");
        let own = ptx::of_entry(kernel.entry).expect("its module has it");
        assert_eq!(own.matches(".entry ").count(), 1, "{}", kernel.name);
        let whole = ptx_simulator::Module::parse(module.text).unwrap();
        let cut = ptx_simulator::Module::parse(&own).unwrap();
        let [whole, cut] = [&whole, &cut].map(|module| module.kernel(kernel.entry).expect("the entry is there"));
        assert_eq!(cut.static_shared_bytes, whole.static_shared_bytes, "{}", kernel.name);
        let text = |ptx: &str| {
            let start = ptx.find(&format!(".visible .entry {}(", kernel.entry)).unwrap();
            let end = ptx[start..].find("\n}\n").unwrap();
            ptx[start..start + end].to_owned()
        };
        assert_eq!(text(&own), text(module.text), "{}", kernel.name);
    }
}

#[test]
fn no_two_modules_have_an_entry_of_the_same_name() {
    let mut entries: Vec<_> = ptx::MODULES.iter().flat_map(|module| module.entries()).collect();
    let count = entries.len();
    entries.sort_unstable();
    entries.dedup();
    assert_eq!(entries.len(), count);
    assert!(count > KERNELS.len());
}
