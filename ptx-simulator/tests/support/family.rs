//! A family of instructions under test: each is run by itself, over many operands, from PTX text to memory.

use super::{Argument, Machine, Plain, module_text, values};

/// Collects what went wrong over many instructions and tells it all at once when it goes out of scope.
pub struct Family {
    machine: Machine,
    failures: Vec<String>,
    checked: usize,
}

impl Family {
    pub fn new() -> Self {
        Self { machine: Machine::with_threads(1), failures: Vec::new(), checked: 0 }
    }

    /// `text` computes `%r` from `%a`, over all of `a`.
    pub fn unary<A: Plain, R: Plain>(&mut self, text: &str, a: &[A], expected: impl Fn(A) -> R) {
        let kernel = kernel_text::<R>(text, &[(A::REGISTER, A::MEMORY)]);
        let want: Vec<R> = a.iter().map(|&a| expected(a)).collect();
        let inputs = [self.machine.upload(a)];
        self.compare(text, &kernel, &inputs, &want, |i| format!("a = {:?} ({:#x})", a[i], a[i].bits()), R::is_same);
    }

    /// `text` computes `%r` from `%a` and `%b`, over all pairs.
    pub fn binary<A: Plain, B: Plain, R: Plain>(&mut self, text: &str, a: &[A], b: &[B], expected: impl Fn(A, B) -> R) {
        let (a, b) = values::pairs(a, b);
        let kernel = kernel_text::<R>(text, &[(A::REGISTER, A::MEMORY), (B::REGISTER, B::MEMORY)]);
        let want: Vec<R> = a.iter().zip(&b).map(|(&a, &b)| expected(a, b)).collect();
        let inputs = [self.machine.upload(&a), self.machine.upload(&b)];
        self.compare(
            text,
            &kernel,
            &inputs,
            &want,
            |i| format!("a = {:?} ({:#x}), b = {:?} ({:#x})", a[i], a[i].bits(), b[i], b[i].bits()),
            R::is_same,
        );
    }

    /// `text` computes `%r` from `%a`, `%b` and `%c`, over all pairs of the first two with changing third ones.
    pub fn ternary<A: Plain, B: Plain, C: Plain, R: Plain>(
        &mut self,
        text: &str,
        a: &[A],
        b: &[B],
        c: &[C],
        expected: impl Fn(A, B, C) -> R,
    ) {
        let (a, b, c) = values::triples(a, b, c);
        let operands = [(A::REGISTER, A::MEMORY), (B::REGISTER, B::MEMORY), (C::REGISTER, C::MEMORY)];
        let kernel = kernel_text::<R>(text, &operands);
        let want: Vec<R> = (0..a.len()).map(|i| expected(a[i], b[i], c[i])).collect();
        let inputs = [self.machine.upload(&a), self.machine.upload(&b), self.machine.upload(&c)];
        self.compare(
            text,
            &kernel,
            &inputs,
            &want,
            |i| {
                format!(
                    "a = {:?} ({:#x}), b = {:?} ({:#x}), c = {:?} ({:#x})",
                    a[i],
                    a[i].bits(),
                    b[i],
                    b[i].bits(),
                    c[i],
                    c[i].bits()
                )
            },
            R::is_same,
        );
    }

    /// An instruction that only approximates: relative error at most `relative`, or absolute error at most `absolute`.
    pub fn approximate(&mut self, text: &str, a: &[f32], relative: f64, absolute: f64, expected: impl Fn(f64) -> f64) {
        let kernel = kernel_text::<f32>(text, &[(f32::REGISTER, f32::MEMORY)]);
        let want: Vec<f32> = a.iter().map(|&a| expected(a.into()) as f32).collect();
        let inputs = [self.machine.upload(a)];
        let describe = |i: usize| format!("a = {:?}", a[i]);
        self.compare(text, &kernel, &inputs, &want, describe, |got, want| {
            let difference = (f64::from(got) - f64::from(want)).abs();
            got == want || got.is_nan() && want.is_nan() || difference <= absolute.max(relative * f64::from(want).abs())
        });
    }

    fn compare<R: Plain>(
        &mut self,
        text: &str,
        kernel: &str,
        inputs: &[ptx_simulator::DevicePointer],
        want: &[R],
        describe: impl Fn(usize) -> String,
        is_right: impl Fn(R, R) -> bool,
    ) {
        self.checked += 1;
        let module = match ptx_simulator::Module::parse(kernel) {
            Ok(module) => module,
            Err(error) => {
                self.failures.push(format!("`{text}` is refused: {error}"));
                return;
            }
        };
        // One element more than is computed, to see that inactive lanes write nothing.
        let count = want.len();
        let guard = R::from_bytes(&[0xa5; 8][..R::SIZE]);
        let output = self.machine.upload(&vec![guard; count + 1]);
        let mut arguments = vec![Argument::Pointer(output), Argument::U32(count as u32)];
        arguments.extend(inputs.iter().map(|&input| Argument::Pointer(input)));
        let blocks = (count as u32).div_ceil(96);
        if let Err(error) = self.machine.try_launch(&module, "instruction", blocks, 96, 0, &arguments) {
            self.failures.push(format!("`{text}` fails: {error}"));
            return;
        }
        let got: Vec<R> = self.machine.download(output, count + 1);
        let wrong: Vec<usize> = (0..count).filter(|&i| !is_right(got[i], want[i])).collect();
        if let Some(&i) = wrong.first() {
            self.failures.push(format!(
                "`{text}`: {} of {count} differ; {} gives {:?} ({:#x}) instead of {:?} ({:#x})",
                wrong.len(),
                describe(i),
                got[i],
                got[i].bits(),
                want[i],
                want[i].bits()
            ));
        }
        if got[count].bits() != guard.bits() {
            self.failures.push(format!("`{text}`: an inactive lane wrote"));
        }
        for &pointer in inputs.iter().chain([&output]) {
            self.machine.device.free(pointer).expect("the buffers of this check are still allocated");
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        if !self.failures.is_empty() && !std::thread::panicking() {
            panic!("{} of {} instructions:\n{}", self.failures.len(), self.checked, self.failures.join("\n"));
        }
    }
}

/// A kernel around `text`: each thread loads its operands into `%a`, `%b`, `%c`, and stores `%r`.
fn kernel_text<R: Plain>(text: &str, operands: &[(&str, &str)]) -> String {
    let names = ["a", "b", "c"];
    let mut parameters = String::new();
    let mut loads = String::new();
    for ((register, memory), name) in operands.iter().zip(names) {
        parameters += &format!(",\n    .param .u64 input_{name}");
        // Narrow elements are loaded into wider registers, as PTX allows.
        let size = memory[1..].parse::<u32>().expect("a memory type ends in its width") / 8;
        loads += &format!(
            "    .reg .{register} %{name};
    ld.param.u64 %base, [input_{name}];
    mad.wide.u32 %address, %index, {size}, %base;
    ld.global.{memory} %{name}, [%address];\n"
        );
    }
    module_text(&format!(
        ".visible .entry instruction(
    .param .u64 output,
    .param .u32 count{parameters})
{{
    .reg .u64 %base, %address;
    .reg .u32 %index, %count, %block, %size;
    .reg .pred %outside;
    .reg .{result} %r;
    mov.u32 %index, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mad.lo.u32 %index, %block, %size, %index;
    ld.param.u32 %count, [count];
    setp.ge.u32 %outside, %index, %count;
    @%outside bra done;
{loads}    {text}
    ld.param.u64 %base, [output];
    mad.wide.u32 %address, %index, {size}, %base;
    st.global.{store} [%address], %r;
done:
    ret;
}}",
        result = R::REGISTER,
        size = R::SIZE,
        store = R::MEMORY,
    ))
}
