//! Divergent loops, switches and early returns.

use crate::ptx;
use crate::support::values::Random;
use crate::support::{Argument, load, on_any_number_of_cores};

#[test]
fn lanes_loop_as_long_as_each_must() {
    let module = load(ptx!("control_flow"));
    let input: Vec<u32> = (1..=300).chain([837_799, 1 << 20, u32::MAX, 27]).collect();
    let got: Vec<u32> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&input), machine.upload(&vec![0u32; input.len()]));
        let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::U32(input.len() as u32)];
        machine.launch(&module, "collatz_steps", 5, 64, 0, &arguments);
        machine.download(output, input.len())
    });
    let steps = |start: u32| {
        let mut n = u64::from(start);
        let mut taken = 0;
        while n != 1 && taken <= 1000 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            taken += 1;
        }
        taken
    };
    assert_eq!(got, input.iter().map(|&n| steps(n)).collect::<Vec<u32>>());
}

/// The little machine of `interpreter` in control_flow.cu.
fn interpret(index: i32, program: &[u8]) -> [i32; 2] {
    let length = program.len() as i32;
    let (mut a, mut b) = (index, 7i32);
    let (mut pc, mut budget) = (0i32, 4 * length);
    while pc < length && budget > 0 {
        let code = program[pc as usize];
        match code & 15 {
            0 => a = a.wrapping_add(b),
            1 => a = a.wrapping_sub(b.wrapping_mul(3)),
            2 => a ^= b << 3,
            3 => b = a.wrapping_sub(b),
            4 => a = a.wrapping_mul(31).wrapping_add(17),
            5 => b = (b >> 1) | 1,
            6 => {
                for k in 0..i32::from(code >> 4) {
                    if k == 9 {
                        continue;
                    }
                    if a & 0xff == 0x55 {
                        break;
                    }
                    a = a.wrapping_mul(5).wrapping_add(k);
                }
            }
            7 => {
                if a <= b {
                    b ^= a;
                }
            }
            8 => a = a.max(b),
            9 => b = a.min(b),
            10 => {
                if budget % 3 == 0 {
                    pc -= 2;
                }
                pc = pc.max(-1);
            }
            11 => a = a.wrapping_abs() % 1000,
            12 => b = b.wrapping_add(pc),
            13 => return [a, b],
            14 => a = !a,
            _ => b = a / (i32::from(code >> 4) + 1),
        }
        pc += 1;
        budget -= 1;
    }
    [a, b]
}

#[test]
fn an_interpreter_runs_another_program_in_every_lane() {
    let module = load(ptx!("control_flow"));
    let mut random = Random::new(30);
    let (count, length) = (150usize, 40usize);
    let programs: Vec<u8> = (0..count * length)
        .map(|_| {
            let code = random.next() as u8;
            // Rarely stop early, so that programs get long.
            if code & 15 == 13 && random.below(8) != 0 { code ^ 1 } else { code }
        })
        .collect();
    let got: Vec<i32> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&programs), machine.upload(&vec![0i32; 2 * count]));
        let arguments = [
            Argument::Pointer(source),
            Argument::Pointer(output),
            Argument::I32(length as i32),
            Argument::U32(count as u32),
        ];
        machine.launch(&module, "interpreter", 2, 96, 0, &arguments);
        machine.download(output, 2 * count)
    });
    for (index, program) in programs.chunks(length).enumerate() {
        assert_eq!(got[2 * index..][..2], interpret(index as i32, program), "program {index}");
    }
}

#[test]
fn nested_loops_break_and_continue_per_lane() {
    let module = load(ptx!("control_flow"));
    let got: Vec<u32> = on_any_number_of_cores(|machine| {
        let output = machine.upload(&[0u32; 200]);
        machine.launch(&module, "triangle_sums", 4, 64, 0, &[Argument::Pointer(output), Argument::U32(200)]);
        machine.download(output, 200)
    });
    let want: Vec<u32> = (0..200u32)
        .map(|i| {
            let mut sum = 0;
            for x in 0..=i % 37 {
                for y in x..i % 11 {
                    if (x ^ y) % 5 == 0 {
                        continue;
                    }
                    if x * y > 40 {
                        break;
                    }
                    sum += x * y + 1;
                }
                if sum > 300 {
                    sum += 100_000;
                    break;
                }
            }
            sum
        })
        .collect();
    assert_eq!(got, want);
}

#[test]
fn lanes_that_returned_do_not_hold_up_shuffles_of_the_rest() {
    let module = load(ptx!("control_flow"));
    let got: Vec<i32> = on_any_number_of_cores(|machine| {
        let output = machine.upload(&[-7i32; 128]);
        machine.launch(&module, "early_exit", 2, 64, 0, &[Argument::Pointer(output)]);
        machine.download(output, 128)
    });
    let want: Vec<i32> = (0..128)
        .map(|i: i32| {
            let lane = i % 32;
            if lane % 2 == 1 { -7 } else { lane + (lane ^ 2) + (lane ^ 4) + (lane ^ 6) }
        })
        .collect();
    assert_eq!(got, want);
}
