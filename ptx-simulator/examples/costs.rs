//! Loads a PTX file, launches one of its kernels and says what each instruction that touches memory cost.
//!
//! ```text
//! cargo run --release -p ptx-simulator --example costs -- kernels.ptx tiled 16,16 16,16 \
//!     f32*65536 f32*65536 f32*65536 256 256 256
//! ```
//! After the kernel's name come the grid's extents, the block's, and the kernel's arguments: `f32*65536` is a buffer of
//! so many numbers, a plain number has 64 bits.

use std::error::Error;
use std::process::ExitCode;

use ptx_simulator::observe::costs::{Costs, Counts, Traffic};
use ptx_simulator::{Argument, LaunchConfig, Module, Simulator};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let mut word = |what: &str| words.next().ok_or_else(|| format!("{what} is missing; see the top of this example"));
    let path = word("the path of a PTX file")?;
    let kernel = word("the name of a kernel")?;
    let config = LaunchConfig {
        grid: extents(&word("the grid, as 16,16,")?)?,
        block: extents(&word("the block, as 16,16,")?)?,
        dynamic_shared_bytes: 0,
    };
    let mut simulator = Simulator::new();
    let mut arguments = Vec::new();
    for word in words {
        arguments.push(match word.strip_prefix("f32*") {
            Some(count) => Argument::Pointer(simulator.allocate(count.parse::<u64>()? * 4)?),
            None => Argument::U64(word.parse()?),
        });
    }

    let module = Module::parse(&std::fs::read_to_string(path)?)?;
    let mut costs = Costs::new(&module, &kernel);
    simulator.launch_observed(&module, &kernel, config, &arguments, &mut costs)?;
    println!("{:<28}{:>9}{:>14}{:>14}{:>14}", "instruction", "PTX line", "requests", "units", "ideal");
    for at in costs.instructions() {
        for (_, traffic) in kinds(&at.counts).iter().filter(|(_, traffic)| traffic.requests > 0) {
            print_traffic(&at.mnemonic, &at.ptx_line.to_string(), traffic);
        }
    }
    let total = costs.total();
    for (name, traffic) in kinds(&total) {
        print_traffic(name, "", &traffic);
    }
    println!("{:<28}{:>23}", "warp instructions", total.warp_instructions);
    println!("{:<28}{:>23}", "thread fma", total.thread_fma);
    println!("{:<28}{:>23}", "barriers", total.barriers);
    Ok(())
}

fn extents(text: &str) -> Result<[u32; 3], Box<dyn Error>> {
    let mut extents = [1; 3];
    for (extent, word) in extents.iter_mut().zip(text.split(',')) {
        *extent = word.parse()?;
    }
    Ok(extents)
}

fn kinds(counts: &Counts) -> [(&'static str, Traffic); 8] {
    [
        ("shared loads", counts.shared_loads),
        ("shared stores", counts.shared_stores),
        ("shared atomics", counts.shared_atomics),
        ("global loads", counts.global_loads),
        ("global stores", counts.global_stores),
        ("global atomics", counts.global_atomics),
        ("copies, shared", counts.shared_copies),
        ("copies, global", counts.global_copies),
    ]
}

fn print_traffic(name: &str, line: &str, traffic: &Traffic) {
    println!("{name:<28}{line:>9}{:>14}{:>14}{:>14}", traffic.requests, traffic.units, traffic.ideal);
}
