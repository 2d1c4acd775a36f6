//! From a product to launches.
//!
//! A [`Multiplication`] is a product whose sizes have been checked, with C's rows contiguous: where C is the transpose
//! of such a matrix, the transposed product is computed. What needs no kernel, or only C, is settled here:
//!
//! * an empty C: nothing is launched;
//! * alpha = 0 or K = 0: C = beta C, and A and B aren't read;
//! * beta = 0: C isn't read.
//!
//! What a kernel can't take as it lies is packed first ([`packing`](super::packing)); what it can't write itself goes through the workspace.

use std::{ops::Range, ptr, slice};

use gpu_kernels::{
    Architecture, Kernel, LaunchShape, Signature,
    launch::{ElementType, MAX_GRID_X, MAX_GRID_YZ},
};
use hopper_kernels::split::SplitCall;
use kernel_common::{
    Call,
    call::TensorCall,
    operands::{MappedOperands, MappedOutput},
    pack::PackCall,
};
use production_kernels::reduce;

use super::{
    Gemm, GemmError, Operand,
    mapped::{Mapper, ensure_pairs},
    matrix::Place,
    packing::Packing,
    parts,
};
use crate::{
    device::{Argument, Device, DeviceBuffer, DeviceError, LoadedKernel, Stream},
    plan::{Plan, Problem, tensor_cores::longest_sum},
};

/// What one launch can take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The largest m, n and k.
    pub(super) size: usize,
    /// The most products.
    pub(super) batch: usize,
}

impl Limits {
    /// Kernels count with 32 bits. 2^30 is so large that hardly anything is cut, is a multiple of every tile, and leaves
    /// room for what goes past an edge. A grid has so many blocks along z.
    pub(super) const OF_KERNELS: Limits = Limits { size: 1 << 30, batch: MAX_GRID_YZ as usize };
}

/// A product that is ready to launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Multiplication<'a> {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) alpha: f32,
    pub(super) beta: f32,
    pub(super) a: Operand<'a>,
    pub(super) b: Operand<'a>,
    pub(super) c: Operand<'a>,
    /// How many products: 1 if none of the three is a batch.
    pub(super) count: usize,
}

impl<'a> Multiplication<'a> {
    /// The product `alpha` `a` `b` + `beta` `c`; `None` if there is nothing to do.
    ///
    /// # Errors
    ///
    /// [`GemmError`] if sizes or batches don't fit together, or something is another device's.
    pub(super) fn new(
        device: &Device,
        (alpha, beta): (f32, f32),
        a: Operand<'a>,
        b: Operand<'a>,
        c: Operand<'a>,
    ) -> Result<Option<Multiplication<'a>>, GemmError> {
        let count = c.place.count().unwrap_or(1);
        for (input, operand) in [("A", &a), ("B", &b)] {
            if let Some(length) = operand.place.count()
                && length != count
            {
                return Err(GemmError::BatchLength { input, count: length, c: count });
            }
        }
        // An empty list doesn't even know its matrices' sizes.
        if count == 0 {
            return Ok(None);
        }
        let (m, n, k) = (a.rows, b.columns, a.columns);
        if b.rows != k {
            return Err(GemmError::InnerSizesDiffer { a_rows: m, a_columns: k, b_rows: b.rows, b_columns: n });
        }
        if (c.rows, c.columns) != (m, n) {
            return Err(GemmError::OutputShape { rows: m, columns: n, c_rows: c.rows, c_columns: c.columns });
        }
        if a.element != b.element || ![ElementType::F32, a.element].contains(&c.element) {
            let [a, b, c] = [a, b, c].map(|operand| operand.element.name());
            return Err(GemmError::ElementTypes { a, b, c });
        }
        for (what, operand) in [("A", &a), ("B", &b), ("C", &c)] {
            if !operand.is_on(device) {
                return Err(DeviceError::OtherDevice { what }.into());
            }
        }
        // Without products of A and B they aren't looked at.
        let (alpha, k) = if alpha == 0.0 || k == 0 { (0.0, 0) } else { (alpha, k) };
        if m == 0 || n == 0 || (k == 0 && beta == 1.0) {
            return Ok(None);
        }
        let product = Multiplication { m, n, k, alpha, beta, a, b, c, count };
        let product = if c.column_stride == 1 || n == 1 { product } else { product.transposed() };
        let Multiplication { a, b, .. } = product;
        Ok(Some(Multiplication { a: a.with_long_lines(), b: b.with_long_lines(), ..product }))
    }

    /// The same product as C^T = B^T A^T.
    fn transposed(self) -> Multiplication<'a> {
        let Multiplication { m, n, a, b, c, .. } = self;
        Multiplication { m: n, n: m, a: b.transposed(), b: a.transposed(), c: c.transposed(), ..self }
    }

    /// Whether `kernel` takes the elements that A and B have.
    ///
    /// # Errors
    ///
    /// [`GemmError::Factors`] if not.
    pub(super) fn suits(&self, kernel: &Kernel) -> Result<(), GemmError> {
        let (takes, given) = (kernel.precision.factors(), self.a.element);
        // Without an inner dimension they aren't looked at.
        if takes == given || self.k == 0 {
            return Ok(());
        }
        Err(GemmError::Factors { kernel: kernel.name, takes: takes.name(), given: given.name() })
    }

    /// The product as general kernels are told of it, with K in one part and no workspace.
    pub(super) fn call(&self) -> Call {
        let Multiplication { m, n, k, alpha, beta, a, b, c, .. } = *self;
        let [(a_first, a_list, a_batch), (b_first, b_list, b_batch), (c_first, c_list, c_batch)] =
            [a, b, c].map(|operand| match operand.place {
                Place::One(address) => (address, 0, 0),
                Place::Strided { address, stride, .. } => (address, 0, stride as u64),
                Place::Listed { addresses, .. } => (0, addresses, 0),
            });
        Call {
            a: pointer(a_first),
            b: pointer(b_first),
            c: pointer::<f32>(c_first).cast_mut(),
            a_list: pointer(a_list),
            b_list: pointer(b_list),
            c_list: pointer(c_list),
            workspace: ptr::null_mut(),
            a_row: a.row_stride as u64,
            a_column: a.column_stride as u64,
            b_row: b.row_stride as u64,
            b_column: b.column_stride as u64,
            c_row: c.row_stride as u64,
            a_batch,
            b_batch,
            c_batch,
            m: m as u32,
            n: n as u32,
            k: k as u32,
            k_per_split: k as u32,
            group: 1,
            alpha,
            beta,
            reserved: 0,
        }
    }

    /// The product as kernels with maps are told of it, with K in one part, that one of the batch alone.
    pub(super) fn tensor_call(&self, manner: &Manner<'_>, index: usize, c_is_mapped: bool) -> TensorCall {
        let Multiplication { m, n, k, alpha, beta, c, .. } = *self;
        TensorCall {
            c: c.address(index),
            c_row: c.row_stride as u64,
            c_batch: c.stride() as u64,
            m: m as u32,
            n: n as u32,
            k: k as u32,
            k_per_split: k as u32,
            splits: 1,
            batch: 1,
            group: group(manner.kernel, manner.group, m),
            alpha,
            beta,
            c_is_mapped: c_is_mapped.into(),
            c_is_half: (c.element != ElementType::F32).into(),
            flags: 0,
            longest_sum: 0,
            reserved: 0,
        }
    }

    /// The same product into the sums of `splits` splits each, in a workspace.
    fn to_sums(self, workspace: u64, splits: u32) -> Multiplication<'a> {
        let Multiplication { m, n, c, count, .. } = self;
        let place = Place::Strided { address: workspace, stride: m * n, count: splits as usize * count };
        let c = Operand { row_stride: n, column_stride: 1, place, element: ElementType::F32, ..c };
        Multiplication { alpha: 1.0, beta: 0.0, c, ..self }
    }

    /// What decides which kernel suits it.
    pub(super) fn problem(&self) -> Problem {
        problem(&self.a, &self.b, Some(&self.c), self.k, self.count, (self.alpha, self.beta))
    }
}

/// What decides which kernel suits a product with inner dimension `k`, `count` at a time. As long as C isn't known it's
/// taken for one without gaps.
pub(super) fn problem(
    a: &Operand<'_>,
    b: &Operand<'_>,
    c: Option<&Operand<'_>>,
    k: usize,
    count: usize,
    (alpha, beta): (f32, f32),
) -> Problem {
    let (a, b) = (&a.with_long_lines(), &b.with_long_lines());
    Problem {
        m: a.rows,
        n: b.columns,
        k,
        a: a.layout(),
        b: b.layout(),
        batch: count,
        plain: (alpha == 1.0 || k == 0)
            && beta == 0.0
            && a.is_packed()
            && b.is_packed()
            && c.is_none_or(|c| c.is_packed() && c.element == ElementType::F32),
    }
}

/// Takes the launches that a product comes to.
pub(super) trait Launcher {
    /// Launches `kernel`.
    ///
    /// # Safety
    ///
    /// As for [`LoadedKernel::launch`].
    unsafe fn launch(
        &mut self,
        kernel: &LoadedKernel,
        shape: &LaunchShape,
        arguments: &[Argument<'_>],
    ) -> Result<(), GemmError>;
}

/// Enqueues them.
impl Launcher for &Stream {
    unsafe fn launch(
        &mut self,
        kernel: &LoadedKernel,
        shape: &LaunchShape,
        arguments: &[Argument<'_>],
    ) -> Result<(), GemmError> {
        // SAFETY: the caller's promise.
        unsafe { kernel.launch(self, shape, arguments)? };
        Ok(())
    }
}

/// How to launch a product: a [`Plan`] with any kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) splits: u32,
    pub(super) group: u32,
}

impl From<&Plan> for Manner<'static> {
    fn from(plan: &Plan) -> Manner<'static> {
        Manner { kernel: plan.kernel, splits: plan.splits, group: plan.group }
    }
}

impl Gemm {
    /// Launches `product` as planned, with what it needs of a workspace in `workspace` or, if there is none, in the stream's own.
    pub(super) fn launch(
        &self,
        product: &Multiplication<'_>,
        plan: &Plan,
        workspace: Option<&DeviceBuffer<f32>>,
        mut stream: &Stream,
    ) -> Result<(), GemmError> {
        let plan = &Manner::from(plan);
        let Some(buffer) = workspace else { return self.launch_in_scratch(product, plan, stream) };
        let needed = self.workspace_of(product, plan);
        if needed > 0 && !buffer.is_on(self.device()) {
            return Err(DeviceError::OtherDevice { what: "the workspace" }.into());
        }
        let given = buffer.len() as u128 * size_of::<f32>() as u128;
        if needed > given {
            let [needed, given] = [needed, given].map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX));
            return Err(GemmError::WorkspaceTooSmall { needed, given });
        }
        self.launch_in(product, plan, buffer.address(), &mut stream)
    }

    /// Launches `product` with the stream's own memory as workspace, if it needs any.
    pub(super) fn launch_in_scratch(
        &self,
        product: &Multiplication<'_>,
        manner: &Manner<'_>,
        mut stream: &Stream,
    ) -> Result<(), GemmError> {
        let needed = self.workspace_of(product, manner);
        if needed == 0 {
            return self.launch_in(product, manner, 0, &mut stream);
        }
        // Held until all launches are enqueued: another thread's must not come between those that write the sums and
        // those that read them.
        let mut scratch = stream.scratch();
        let elements = usize::try_from(needed.div_ceil(size_of::<f32>() as u128)).unwrap_or(usize::MAX);
        let address = scratch.at_least(stream, elements)?;
        self.launch_in(product, manner, address, &mut stream)
    }

    /// Launches `product` with a kernel of any signature and the workspace that it needs.
    pub(super) fn launch_in(
        &self,
        product: &Multiplication<'_>,
        manner: &Manner<'_>,
        workspace: u64,
        launcher: &mut impl Launcher,
    ) -> Result<(), GemmError> {
        // The book's kernels make the best of nothing themselves; before compute_80 the general one has to.
        let scales_itself = match manner.kernel.signature {
            Signature::Plain => true,
            _ => manner.kernel.architecture < reduce::KERNEL.architecture && product.c.element == ElementType::F32,
        };
        if product.k == 0 && !scales_itself {
            return self.launch_scaling(product, launcher);
        }
        if manner.splits > 1 && manner.kernel.signature.takes_k_whole() {
            return Err(GemmError::WholeOnly { kernel: manner.kernel.name });
        }
        let packing = match product.k {
            0 => Packing::default(),
            _ => Packing::of(manner.kernel, &product.a, &product.b, product.count),
        };
        if packing != Packing::default() && product.m.max(product.n).max(product.k) > self.limits.size {
            let Multiplication { m, n, k, .. } = *product;
            return Err(GemmError::NoLaunch { m, n, k, kernel: manner.kernel.name });
        }
        let (product, workspace) = &self.launch_packing(product, &packing, workspace, launcher)?;
        match manner.kernel.signature {
            Signature::Plain | Signature::Mapped(_) => self.launch_plain(product, manner.kernel, launcher),
            Signature::Call => self.launch_call(product, manner, *workspace, launcher),
            Signature::MappedCall(operands) => {
                let is_packed = packing != Packing::default();
                self.launch_mapped_call(product, manner, (&operands, is_packed), *workspace, launcher)
            }
            Signature::MappedParts(operands) => self.launch_parts(product, manner, &operands, *workspace, launcher),
        }
    }

    /// Launches `product` with a general kernel, piece by piece where its sizes or its batch don't fit into one launch.
    pub(super) fn launch_call(
        &self,
        product: &Multiplication<'_>,
        plan: &Manner<'_>,
        workspace: u64,
        launcher: &mut impl Launcher,
    ) -> Result<(), GemmError> {
        product.suits(plan.kernel)?;
        self.launch_pieces(product, plan, workspace, launcher)
    }

    /// As [`launch_call`](Gemm::launch_call), with a kernel that is known to suit or, if there is nothing to multiply, not
    /// launched.
    fn launch_pieces(
        &self,
        product: &Multiplication<'_>,
        plan: &Manner<'_>,
        workspace: u64,
        launcher: &mut impl Launcher,
    ) -> Result<(), GemmError> {
        let Multiplication { m, n, k, a, b, c, count, .. } = *product;
        let Limits { size, batch } = self.limits;
        if m.max(n).max(k) <= size {
            return pieces(count, batch).try_for_each(|batch| {
                let [a, b, c] = [a, b, c].map(|operand| operand.without_first(batch.start));
                let piece = Multiplication { a, b, c, count: batch.len(), ..*product };
                self.launch_piece(&piece, plan, workspace, launcher)
            });
        }
        // One product of the batch after the other, since addresses in a list can't be moved to a piece.
        for index in 0..count {
            for rows in pieces(m, size) {
                for columns in pieces(n, size) {
                    for places in pieces(k, size) {
                        let piece = Multiplication {
                            m: rows.len(),
                            n: columns.len(),
                            k: places.len(),
                            // What the pieces of K before this one have left is in C.
                            beta: if places.start == 0 { product.beta } else { 1.0 },
                            a: a.part(index, rows.clone(), places.clone()),
                            b: b.part(index, places, columns.clone()),
                            c: c.part(index, rows.clone(), columns.clone()),
                            count: 1,
                            ..*product
                        };
                        self.launch_piece(&piece, plan, workspace, launcher)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Bytes of workspace that a product needs.
    pub(super) fn workspace_of(&self, product: &Multiplication<'_>, manner: &Manner<'_>) -> u128 {
        let c_is_half = product.c.element != ElementType::F32;
        let Multiplication { a, b, k, count, .. } = product;
        // Without an inner dimension they aren't looked at, whatever they are.
        if *k == 0 { 0 } else { self.workspace_bytes(manner, a, b, *count, c_is_half) }
    }

    /// Bytes of workspace that a plan needs for `count` products of `a` and `b`: for what is packed, and for sums, of as many products as one launch
    /// takes.
    pub(super) fn workspace_bytes(
        &self,
        plan: &Manner<'_>,
        a: &Operand<'_>,
        b: &Operand<'_>,
        count: usize,
        c_is_half: bool,
    ) -> u128 {
        let ([m, n, k], Limits { size, batch }) = ([a.rows, b.columns, a.columns], self.limits);
        if k == 0 {
            return 0;
        }
        let (_, splits) = split(plan.kernel, plan.splits, k.min(size));
        let at_once = if m.max(n).max(k) <= size { count.min(batch) } else { 1 };
        let sums_of = |splits: u32| {
            u128::from(splits) * m.min(size) as u128 * n.min(size) as u128 * at_once as u128 * size_of::<f32>() as u128
        };
        let sums = match plan.kernel.signature {
            // A C of 16 bits is made of sums of f32.
            Signature::Call if c_is_half || splits > 1 => sums_of(splits),
            Signature::MappedCall(_) if splits > 1 => sums_of(splits),
            Signature::MappedParts(_) => parts::workspace_bytes(a, b, count, batch).into(),
            _ => 0,
        };
        Packing::of(plan.kernel, a, b, count).bytes() + sums
    }

    /// Launches a product that one launch can take, or two if K is split or C isn't of f32.
    fn launch_piece(
        &self,
        product: &Multiplication<'_>,
        plan: &Manner<'_>,
        workspace: u64,
        launcher: &mut impl Launcher,
    ) -> Result<(), GemmError> {
        let Multiplication { m, n, k, count, .. } = *product;
        let kernel = plan.kernel;
        let (k_per_split, splits) = split(kernel, plan.splits, k);
        let batched = |shape: Option<LaunchShape>, splits: u32| {
            let shape = shape.ok_or(GemmError::NoLaunch { m, n, k, kernel: kernel.name })?;
            Ok::<_, GemmError>(LaunchShape { grid: [shape.grid[0], splits, count as u32], ..shape })
        };
        if k == 0 && kernel.architecture >= reduce::KERNEL.architecture {
            return self.launch_sum(product, 0, workspace, launcher);
        }
        let through_sums = product.c.element != ElementType::F32;
        let own = if through_sums { product.to_sums(workspace, 1) } else { *product };
        let call = Call {
            k_per_split,
            group: group(kernel, plan.group, m),
            workspace: pointer::<f32>(workspace).cast_mut(),
            ..own.call()
        };
        let loaded = self.loaded_kernel(kernel)?;
        let shape = batched((kernel.launch_shape)(m, n, k), splits)?;
        // SAFETY: the kernel takes a Call, which says where the matrices are, and they lie as it wants them. The views
        // were checked to be inside their buffers, C's apart from each other and from all that may be read meanwhile;
        // the buffers outlive this call and, freed after what is enqueued, the launch. The workspace has room for all
        // splits of all products.
        unsafe { launcher.launch(&loaded, &shape, &[Argument::Bytes(bytes_of(&call))])? };
        if splits > 1 || through_sums {
            self.launch_sum(product, splits, workspace, launcher)?;
        }
        Ok(())
    }

    /// Launches what adds up the sums of a product's splits in the workspace, of so many splits, and makes C of them. C = beta C is what the sums
    /// of no splits come to.
    pub(super) fn launch_sum(
        &self,
        product: &Multiplication<'_>,
        splits: u32,
        workspace: u64,
        launcher: &mut impl Launcher,
    ) -> Result<(), GemmError> {
        let Multiplication { m, n, k, count, c, .. } = *product;
        let on_hopper = Architecture::Compute90a.runs_on(self.device().machine().compute_capability);
        let kernel = match (c.element, on_hopper) {
            (ElementType::F32, false) => &reduce::KERNEL,
            (ElementType::Bf16, false) => &reduce::TO_BF16,
            (ElementType::F16, false) => &reduce::TO_F16,
            (ElementType::F32, true) => &hopper_kernels::reduce::KERNEL,
            (ElementType::Bf16, true) => &hopper_kernels::reduce::TO_BF16,
            (ElementType::F16, true) => &hopper_kernels::reduce::TO_F16,
        };
        let shape = reduce::launch_shape(m, n, splits).ok_or(GemmError::NoLaunch { m, n, k, kernel: kernel.name })?;
        let shape = LaunchShape { grid: [shape.grid[0], 1, count as u32], ..shape };
        let call = Call { k_per_split: splits, workspace: pointer::<f32>(workspace).cast_mut(), ..product.call() };
        let loaded = self.loaded_kernel(kernel)?;
        // SAFETY: the kernel takes a Call, of which it uses C and the workspace. C's views were checked to be inside their buffers, apart from each
        // other; the workspace has the sums of all splits of all products. All outlive this call and, freed after what is enqueued, the launch.
        unsafe { launcher.launch(&loaded, &shape, &[Argument::Bytes(bytes_of(&call))]) }
    }

    /// Launches `product` with a kernel that computes C = A B and nothing else, once for every matrix of a batch.
    fn launch_plain(
        &self,
        product: &Multiplication<'_>,
        kernel: &Kernel,
        launcher: &mut impl Launcher,
    ) -> Result<(), GemmError> {
        product.suits(kernel)?;
        let Multiplication { m, n, k, a, b, c, .. } = *product;
        let operands = kernel.signature.mapped();
        let gap = [("A", &a), ("B", &b), ("C", &c)].into_iter().find(|(name, matrix)| {
            let is_mapped = operands.is_some_and(|operands| *name != "C" || operands.c != MappedOutput::Pointer);
            !is_mapped && !matrix.is_packed()
        });
        if let Some((matrix, _)) = gap {
            return Err(GemmError::NotPacked { matrix, kernel: kernel.name });
        }
        if product.beta != 0.0 || (product.alpha != 1.0 && k > 0) {
            return Err(GemmError::PlainOnly { kernel: kernel.name });
        }
        if c.element != ElementType::F32 {
            return Err(GemmError::PlainOnly { kernel: kernel.name });
        }
        ensure_pairs(kernel, n)?;
        let no_launch = || GemmError::NoLaunch { m, n, k, kernel: kernel.name };
        let shape = (kernel.launch_shape)(m, n, k).ok_or_else(no_launch)?;
        let tiles = shape.grid[0].into();
        let shape = operands.map_or(Some(shape), |operands| self.stay(operands, shape, tiles)).ok_or_else(no_launch)?;
        let loaded = self.loaded_kernel(kernel)?;
        let sizes = [m, n, k].map(|size| Argument::U64(size as u64));
        for index in 0..product.count {
            let pointers = [&a, &b, &c].map(|operand| Argument::Pointer(operand.address(index)));
            let (factors, output);
            let [a, b, c] = match operands {
                None => pointers,
                Some(operands) => {
                    let mapper = Mapper { device: self.device(), kernel, operands, product, at_once: 1 };
                    factors = mapper.factors(index)?;
                    output = mapper.output(index)?;
                    let c = output.as_ref().map_or(pointers[2], |map| Argument::Bytes(map));
                    [Argument::Bytes(&factors[0]), Argument::Bytes(&factors[1]), c]
                }
            };
            let [m, n, k] = sizes;
            // SAFETY: every kernel of these signatures takes (a, b, c, m, n, k) and, launched with its own shape, stays inside
            // the m x k, k x n and m x n elements at a, b and c, or in the tensors of these maps, which are the same elements;
            // they are of the types that it takes and have no gaps, or only such as the maps say. The views were checked to lie
            // inside their buffers, which outlive this call and, freed after what is enqueued, the launch.
            unsafe { launcher.launch(&loaded, &shape, &[a, b, c, m, n, k])? };
        }
        Ok(())
    }

    /// `shape` with blocks along x for so many tiles; `None` if they are more than blocks, which count them with as many bits, can be.
    pub(super) fn stay(&self, operands: &MappedOperands, shape: LaunchShape, tiles: u64) -> Option<LaunchShape> {
        let [_, y, z] = shape.grid;
        (tiles <= MAX_GRID_X).then(|| LaunchShape { grid: [self.blocks(operands, tiles) as u32, y, z], ..shape })
    }

    /// Blocks of a launch along x with so many tiles: no more than run at a time, if they stay.
    fn blocks(&self, operands: &MappedOperands, tiles: u64) -> u64 {
        let cluster = operands.cluster.max(1);
        let at_a_time = u64::from((self.device().machine().multiprocessors / cluster).max(1) * cluster);
        if operands.blocks_stay { tiles.min(at_a_time) } else { tiles }
    }

    /// Launches C = beta C for products without anything to multiply.
    fn launch_scaling(&self, product: &Multiplication<'_>, launcher: &mut impl Launcher) -> Result<(), GemmError> {
        let manner = Manner { kernel: &reduce::KERNEL, splits: 1, group: 1 };
        self.launch_pieces(product, &manner, 0, launcher)
    }

    /// Launches `product` with a kernel that takes maps of batches: once if the matrices of all batches are equally far apart,
    /// else once for every product.
    fn launch_mapped_call(
        &self,
        product: &Multiplication<'_>,
        manner: &Manner<'_>,
        (operands, is_packed): (&MappedOperands, bool),
        workspace: u64,
        launcher: &mut impl Launcher,
    ) -> Result<(), GemmError> {
        let kernel = manner.kernel;
        product.suits(kernel)?;
        let Multiplication { m, n, k, a, b, c, count, .. } = *product;
        let no_launch = || GemmError::NoLaunch { m, n, k, kernel: kernel.name };
        if m.max(n).max(k) > self.limits.size {
            return Err(no_launch());
        }
        let shape = (kernel.launch_shape)(m, n, k).ok_or_else(no_launch)?;
        let loaded = self.loaded_kernel(kernel)?;
        let (k_per_split, splits) = split(kernel, manner.splits, k);
        let is_batch = |operand: &Operand<'_>| operand.is_batch_at_aligned_distances();
        let at_once = if is_batch(&a) && is_batch(&b) && (is_batch(&c) || splits > 1) { count } else { 1 };
        let at_once = at_once.min(self.limits.batch);
        for batch in pieces(count, at_once) {
            let tiles = u64::from(shape.grid[0]) * batch.len() as u64 * u64::from(splits);
            let shape = self.stay(operands, shape, tiles).ok_or_else(no_launch)?;
            let [a, b, c] = [a, b, c].map(|operand| operand.without_first(batch.start));
            let whole = Multiplication { a, b, c, count: batch.len(), ..*product };
            let own = if splits > 1 { whole.to_sums(workspace, splits) } else { whole };
            let mapper = Mapper { device: self.device(), kernel, operands, product: &own, at_once: batch.len() };
            let factors = mapper.factors(0)?;
            let output = Mapper { at_once: batch.len() * splits as usize, ..mapper }.output_if_mappable(0)?;
            let call = TensorCall {
                batch: batch.len() as u32,
                splits,
                k_per_split,
                longest_sum: if is_packed { longest_sum(k) } else { 0 },
                ..own.tensor_call(manner, 0, output.is_some())
            };
            let [a, b, c] =
                [&factors[0], &factors[1], output.as_ref().unwrap_or(&factors[0])].map(|map| Argument::Bytes(map));
            // SAFETY: the kernel takes three maps and a TensorCall, and stays inside the tensors of A's and B's map and inside
            // C, which are the elements of these matrices, of the types that it takes. The views were checked to be inside
            // their buffers, C's apart from each other and from all that may be read meanwhile, or are in a workspace that has room for them;
            // all outlive this call and, freed after what is enqueued, the launch.
            unsafe { launcher.launch(&loaded, &shape, &[a, b, c, Argument::Bytes(bytes_of(&call))])? };
            if splits > 1 {
                self.launch_sum(&whole, splits, workspace, launcher)?;
            }
        }
        Ok(())
    }
}

/// How much of K each split takes and how many splits that makes, none of them empty.
fn split(kernel: &Kernel, splits: u32, k: usize) -> (u32, u32) {
    let step = kernel.tile.k as usize;
    // Each split is a row of blocks of the grid.
    let per_split = k.div_ceil(splits.clamp(1, MAX_GRID_YZ as u32) as usize).next_multiple_of(step).max(step);
    (per_split as u32, k.div_ceil(per_split).max(1) as u32)
}

/// The rows of tiles in a group of a product with `m` rows: no more than there are. Kernels count the tiles of a group with 32
/// bits, and the tiles of the product are that few.
fn group(kernel: &Kernel, group: u32, m: usize) -> u32 {
    let rows = m.div_ceil(kernel.tile.m as usize).max(1);
    u32::try_from(rows).map_or(group, |rows| group.min(rows)).max(1)
}

/// The pieces of at most `most` into which `length` is cut; one that is empty if there is nothing to cut.
pub(super) fn pieces(length: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length.div_ceil(most).max(1)).map(move |piece| piece * most..length.min((piece + 1) * most))
}

fn pointer<T>(address: u64) -> *const T {
    ptr::without_provenance(address as usize)
}

/// What kernels read byte for byte.
///
/// # Safety
///
/// The type has no padding, so that every byte of it is set.
pub(super) unsafe trait Bytes {}
// SAFETY: its fields are of 8 bytes, then an even number of 4.
unsafe impl Bytes for Call {}
// SAFETY: as above.
unsafe impl Bytes for TensorCall {}
// SAFETY: as above.
unsafe impl Bytes for SplitCall {}
// SAFETY: as above.
unsafe impl Bytes for PackCall {}

/// A call as kernels read it.
pub(super) fn bytes_of<T: Bytes>(call: &T) -> &[u8] {
    // SAFETY: every byte of it is set; the bytes live as long as it does.
    unsafe { slice::from_raw_parts(ptr::from_ref(call).cast(), size_of::<T>()) }
}

#[cfg(test)]
mod tests {
    use production_kernels::FAMILIES;

    use super::*;

    #[test]
    fn there_are_no_more_splits_than_a_grid_has_rows_of_blocks_nor_groups_higher_than_the_product() {
        for kernel in FAMILIES.iter().flat_map(|family| family.kernels) {
            for k in [1, 70, 1 << 20, (1 << 30) - 1, 1 << 30] {
                let (per_split, splits) = split(kernel, u32::MAX, k);
                assert!((1..=MAX_GRID_YZ).contains(&splits.into()), "{}: {splits}", kernel.name);
                assert!(per_split as usize * splits as usize >= k && per_split as usize * (splits as usize - 1) < k);
            }
            let tile = kernel.tile.m as usize;
            assert_eq!([0, 1, 2, u32::MAX].map(|rows| group(kernel, rows, tile + 1)), [1, 1, 2, 2]);
        }
    }
}
