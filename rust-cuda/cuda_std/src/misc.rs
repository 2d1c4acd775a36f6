//! What fits nowhere else: breakpoint, profiler events, clock.
use crate::gpu_only;

/// Stops in the debugger, if one is attached.
#[gpu_only]
pub fn breakpoint() {
    // SAFETY: hands over to a debugger.
    unsafe { core::arch::asm!("brkpt;", options(nostack)) }
}

/// Raises the profiler event number `counter`, once for each warp that comes by.
///
/// # Panics
/// If `counter` is more than 7.
#[gpu_only]
pub fn profiler_counter(counter: u32) {
    macro_rules! raise {
        // The instruction takes a constant only.
        ($event:literal) => {
            // SAFETY: a counter of the profiler is no memory of the program.
            unsafe { core::arch::asm!(concat!("pmevent ", $event, ";"), options(nomem, nostack)) }
        };
    }
    match counter {
        0 => raise!(0),
        1 => raise!(1),
        2 => raise!(2),
        3 => raise!(3),
        4 => raise!(4),
        5 => raise!(5),
        6 => raise!(6),
        7 => raise!(7),
        _ => panic!("profiler events are numbered 0 to 7"),
    }
}

/// Clock cycles of this thread's multiprocessor since some moment of its own.
#[gpu_only]
pub fn clock() -> u64 {
    let cycles;
    // No `nomem`: what is timed must stay between two readings.
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("mov.u64 {}, %clock64;", out(reg64) cycles, options(nostack)) }
    cycles
}
