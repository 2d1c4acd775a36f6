//! What a thread knows of itself.

use crate::support::{Argument, Machine, load, module_text, on_any_number_of_cores};

#[test]
fn indices_and_extents_in_three_dimensions() {
    let names = [
        "tid.x",
        "tid.y",
        "tid.z",
        "ntid.x",
        "ntid.y",
        "ntid.z",
        "ctaid.x",
        "ctaid.y",
        "ctaid.z",
        "nctaid.x",
        "nctaid.y",
        "nctaid.z",
        "laneid",
        "WARP_SZ",
        "lanemask_eq",
        "lanemask_lt",
        "lanemask_le",
        "lanemask_gt",
        "lanemask_ge",
    ];
    let stores: String = names
        .iter()
        .enumerate()
        .map(|(i, name)| {
            let operand = if *name == "WARP_SZ" { (*name).to_owned() } else { format!("%{name}") };
            format!("mov.u32 %v, {operand}; st.global.u32 [%p+{}], %v;\n", i * 4)
        })
        .collect();
    let count = names.len();
    let module = load(&module_text(&format!(
        ".visible .entry registers(.param .u64 out)
        {{
            .reg .u32 %x, %y, %z, %n, %v, %block, %size; .reg .u64 %p;
            mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %z, %tid.z;
            mov.u32 %n, %ntid.y; mad.lo.u32 %z, %z, %n, %y; mov.u32 %n, %ntid.x; mad.lo.u32 %x, %z, %n, %x;
            mov.u32 %y, %ctaid.y; mov.u32 %z, %ctaid.z; mov.u32 %block, %ctaid.x;
            mov.u32 %n, %nctaid.y; mad.lo.u32 %z, %z, %n, %y; mov.u32 %n, %nctaid.x; mad.lo.u32 %block, %z, %n, %block;
            mov.u32 %size, %ntid.x; mov.u32 %n, %ntid.y; mul.lo.u32 %size, %size, %n; mov.u32 %n, %ntid.z; mul.lo.u32 %size, %size, %n;
            mad.lo.u32 %x, %block, %size, %x;
            ld.param.u64 %p, [out]; mad.wide.u32 %p, %x, {bytes}, %p;
            {stores}
            ret;
        }}",
        bytes = count * 4,
    )));
    for (grid, block) in
        [([1u32, 1, 1], [32u32, 1, 1]), ([3, 2, 2], [5, 3, 4]), ([1, 4, 1], [1, 7, 9]), ([2, 1, 3], [70, 1, 2])]
    {
        let blocks: u32 = grid.iter().product();
        let threads: u32 = block.iter().product();
        let got: Vec<u32> = on_any_number_of_cores(|machine| {
            let output = machine.upload(&vec![0u32; (blocks * threads) as usize * count]);
            machine.launch(&module, "registers", grid, block, 0, &[Argument::Pointer(output)]);
            machine.download(output, (blocks * threads) as usize * count)
        });
        for (index, words) in got.chunks(count).enumerate() {
            let (b, t) = (index as u32 / threads, index as u32 % threads);
            let lane = t % 32;
            let below = (1u32 << lane) - 1;
            let want = [
                t % block[0],
                t / block[0] % block[1],
                t / block[0] / block[1],
                block[0],
                block[1],
                block[2],
                b % grid[0],
                b / grid[0] % grid[1],
                b / grid[0] / grid[1],
                grid[0],
                grid[1],
                grid[2],
                lane,
                32,
                1 << lane,
                below,
                below | 1 << lane,
                !(below | 1 << lane),
                !below,
            ];
            assert_eq!(words, want, "grid {grid:?}, block {block:?}, block {b}, thread {t}");
        }
    }
}

#[test]
fn clocks_never_run_backwards() {
    let module = load(&module_text(
        ".visible .entry clocks(.param .u64 out)
        {
            .reg .u64 %p, %a, %b, %g, %h; .reg .u32 %c; .reg .pred %q, %s; .reg .u32 %r;
            ld.param.u64 %p, [out]; mov.u64 %a, %clock64; mov.u64 %g, %globaltimer; mov.u32 %c, %clock;
            mov.u64 %b, %clock64; mov.u64 %h, %globaltimer;
            setp.ge.u64 %q, %b, %a; setp.ge.and.u64 %q, %h, %g, %q; selp.u32 %r, 1, 0, %q;
            st.global.u32 [%p], %r; ret;
        }",
    ));
    let mut machine = Machine::with_threads(1);
    let output = machine.upload(&[0u32]);
    machine.launch(&module, "clocks", 1, 32, 0, &[Argument::Pointer(output)]);
    assert_eq!(machine.download::<u32>(output, 1), [1]);
}

#[test]
fn sizes_of_shared_memory_and_number_of_warps_can_be_read() {
    let module = load(&module_text(
        ".extern .shared .b8 dynamic[];
        .visible .entry sizes(.param .u64 out)
        {
            .reg .u64 %p; .reg .u32 %r;
            ld.param.u64 %p, [out];
            mov.u32 %r, %dynamic_smem_size; st.global.u32 [%p], %r;
            mov.u32 %r, %nwarpid; min.u32 %r, %r, 1; st.global.u32 [%p+4], %r;
            ret;
        }",
    ));
    let mut machine = Machine::with_threads(1);
    let output = machine.upload(&[0u32; 2]);
    machine.launch(&module, "sizes", 1, 32, 640, &[Argument::Pointer(output)]);
    assert_eq!(machine.download::<u32>(output, 2), [640, 1]);
}
