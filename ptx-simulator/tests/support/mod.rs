//! What every test of the simulator needs: typed buffers, launches on several numbers of cores, values worth trying.

// Each test program compiles this module for itself and uses a part of it.
#![allow(dead_code)]

pub mod family;
pub mod values;

pub use ptx_simulator::{Argument, DevicePointer, LaunchConfig, LaunchError, Module, Simulator};

/// A number with a fixed little-endian layout in device memory.
pub trait Plain: Copy + std::fmt::Debug + PartialEq + 'static {
    /// Bytes of one element.
    const SIZE: usize;
    /// The PTX type of a register that holds the number.
    const REGISTER: &'static str;
    /// The PTX type with which loads and stores move it.
    const MEMORY: &'static str;
    fn append_to(self, bytes: &mut Vec<u8>);
    fn from_bytes(bytes: &[u8]) -> Self;
    /// The bit pattern, for comparisons and messages.
    fn bits(self) -> u64;

    /// The same bits; or, in double precision, both NaN: PTX leaves the payload of a double's NaN open.
    fn is_same(self, other: Self) -> bool {
        let is_double_nan = |bits: u64| Self::REGISTER == "f64" && f64::from_bits(bits).is_nan();
        self.bits() == other.bits() || is_double_nan(self.bits()) && is_double_nan(other.bits())
    }
}

macro_rules! plain {
    ($($number:ty, $unsigned:ty, $register:literal, $memory:literal;)*) => {$(
        impl Plain for $number {
            const SIZE: usize = size_of::<$number>();
            const REGISTER: &'static str = $register;
            const MEMORY: &'static str = $memory;
            fn append_to(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("a chunk of exactly one element"))
            }
            fn bits(self) -> u64 {
                u64::from(<$unsigned>::from_le_bytes(self.to_le_bytes()))
            }
        }
    )*};
}

plain! {
    u8, u8, "b16", "u8";
    i8, u8, "b16", "s8";
    u16, u16, "b16", "u16";
    i16, u16, "b16", "s16";
    u32, u32, "b32", "u32";
    i32, u32, "b32", "s32";
    u64, u64, "b64", "u64";
    i64, u64, "b64", "s64";
    f32, u32, "f32", "f32";
    f64, u64, "f64", "f64";
    half::f16, u16, "b16", "b16";
    half::bf16, u16, "b16", "b16";
}

/// The little-endian bytes of `values`.
pub fn bytes_of<T: Plain>(values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * T::SIZE);
    for value in values {
        value.append_to(&mut bytes);
    }
    bytes
}

/// The elements that `bytes` hold.
pub fn elements_of<T: Plain>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::SIZE).map(T::from_bytes).collect()
}

/// A simulator with typed memory.
pub struct Machine {
    pub device: Simulator,
}

impl Machine {
    /// A machine whose blocks run on `threads` cores.
    pub fn with_threads(threads: usize) -> Self {
        Self { device: Simulator::builder().threads(threads).build() }
    }

    /// A new allocation that holds `values`.
    pub fn upload<T: Plain>(&mut self, values: &[T]) -> DevicePointer {
        let pointer = self.device.allocate((values.len() * T::SIZE) as u64).expect("memory for a small buffer");
        self.device.write(pointer, &bytes_of(values)).expect("a write inside its allocation");
        pointer
    }

    /// The `count` elements at `pointer`.
    pub fn download<T: Plain>(&mut self, pointer: DevicePointer, count: usize) -> Vec<T> {
        let mut bytes = vec![0; count * T::SIZE];
        self.device.read(pointer, &mut bytes).expect("a read inside its allocation");
        elements_of(&bytes)
    }

    /// Launches and waits; a launch error ends the test with its text.
    pub fn launch(
        &mut self,
        module: &Module,
        kernel: &str,
        grid: impl Into<Shape>,
        block: impl Into<Shape>,
        dynamic_shared_bytes: u32,
        arguments: &[Argument],
    ) {
        if let Err(error) = self.try_launch(module, kernel, grid, block, dynamic_shared_bytes, arguments) {
            panic!("`{kernel}` should run: {error}");
        }
    }

    /// Launches and waits.
    pub fn try_launch(
        &mut self,
        module: &Module,
        kernel: &str,
        grid: impl Into<Shape>,
        block: impl Into<Shape>,
        dynamic_shared_bytes: u32,
        arguments: &[Argument],
    ) -> Result<(), LaunchError> {
        let config = LaunchConfig { grid: grid.into().0, block: block.into().0, dynamic_shared_bytes };
        self.device.launch(module, kernel, config, arguments).map(drop)
    }
}

/// Extents of a grid or a block: a number or two or three of them.
#[derive(Clone, Copy, Debug)]
pub struct Shape(pub [u32; 3]);

impl From<u32> for Shape {
    fn from(x: u32) -> Self {
        Self([x, 1, 1])
    }
}

impl From<(u32, u32)> for Shape {
    fn from((x, y): (u32, u32)) -> Self {
        Self([x, y, 1])
    }
}

impl From<[u32; 3]> for Shape {
    fn from(extents: [u32; 3]) -> Self {
        Self(extents)
    }
}

/// Parses PTX that must load; the error's text ends the test otherwise.
pub fn load(ptx: &str) -> Module {
    match Module::parse(ptx) {
        Ok(module) => module,
        Err(error) => panic!("the module should load: {error}\n{ptx}"),
    }
}

/// Runs `job` on machines with one, two and five cores, requires the same bits of all, and returns them.
pub fn on_any_number_of_cores<T: Plain>(job: impl Fn(&mut Machine) -> Vec<T>) -> Vec<T> {
    let first = job(&mut Machine::with_threads(1));
    for threads in [2, 5] {
        let other = job(&mut Machine::with_threads(threads));
        assert!(
            bytes_of(&first) == bytes_of(&other),
            "{threads} cores give other bits than one: {:?}",
            first.iter().zip(&other).enumerate().find(|(_, (a, b))| a.bits() != b.bits())
        );
    }
    first
}

/// A whole PTX module around the text of kernels and functions.
pub fn module_text(body: &str) -> String {
    format!(".version 8.3\n.target sm_90\n.address_size 64\n{body}\n")
}

/// A kernel `test` around the text of its body.
///
/// The body finds its output buffer in `%out`, two input buffers in `%in0` and `%in1`, its index in the grid's x
/// direction in `%thread`, and registers `%p0..7`, `%h0..7`, `%r0..31`, `%rd0..31`, `%f0..7`, `%d0..7` to use.
pub fn kernel_with_body(declarations: &str, body: &str) -> String {
    module_text(&format!(
        "{declarations}
.visible .entry test(.param .u64 output, .param .u64 input0, .param .u64 input1)
{{
    .reg .pred %p<8>;
    .reg .b16 %h<8>;
    .reg .b32 %r<32>;
    .reg .b64 %rd<32>;
    .reg .f32 %f<8>;
    .reg .f64 %d<8>;
    .reg .b32 %thread;
    .reg .b64 %out, %in0, %in1;
    ld.param.u64 %out, [output];
    ld.param.u64 %in0, [input0];
    ld.param.u64 %in1, [input1];
    mov.u32 %thread, %tid.x;
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mad.lo.u32 %thread, %r0, %r1, %thread;
{body}
    ret;
}}"
    ))
}

/// Runs a kernel made by [`kernel_with_body`]: `count` output elements, zero before the launch.
pub fn run_body<T: Plain>(
    declarations: &str,
    body: &str,
    grid: impl Into<Shape>,
    block: impl Into<Shape>,
    inputs: [&[u8]; 2],
    count: usize,
) -> Vec<T> {
    let module = load(&kernel_with_body(declarations, body));
    let (grid, block) = (grid.into(), block.into());
    on_any_number_of_cores(|machine| {
        let output = machine.upload(&vec![0u8; count * T::SIZE]);
        // An empty input still needs an address.
        let inputs = inputs.map(|bytes| machine.upload(if bytes.is_empty() { &[0] } else { bytes }));
        let arguments = [output, inputs[0], inputs[1]].map(Argument::Pointer);
        machine.launch(&module, "test", grid, block, 0, &arguments);
        machine.download(output, count)
    })
}
