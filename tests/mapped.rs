//! Kernels that copy whole boxes get the tensor maps that they ask for in their descriptors, whatever the matrices: tried with
//! small ones written by hand, on the simulator.

mod common;

use gpu_kernels::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile, launch::ElementType};
use half::bf16;
use host::{
    check::{self, Case},
    device::{Device, DeviceBuffer, DeviceSelector},
    gemm::{
        DeviceMatrices, DeviceMatricesMut, DeviceMatrix, FactorBuffer, Gemm, GemmError, Timing, ensure_sizes, rounded,
    },
    kernels::Named,
    matrix,
    plan::Plan,
    verify::{self, Order},
};
use kernel_common::operands::{CopiedBox, MappedOperand, MappedOperands, MappedOutput, Swizzle};
use ndarray::{Array2, s};

/// Boxes of 8 x 8 elements, by rows.
const BOX: MappedOperand =
    MappedOperand { by_columns: false, copied: CopiedBox::Lines { width: 8, lines: 8 }, swizzle: Swizzle::None };
/// The same of batches.
const BATCHED: MappedOperand = MappedOperand { copied: CopiedBox::Batched { width: 8, lines: 8 }, ..BOX };

/// C by pointer.
static BOXES: Kernel = kernel("boxes", Signature::Mapped(operands(BOX, MappedOutput::Pointer)));
/// C by tensor map.
static BOXES_STORED: Kernel = kernel("boxes_stored", Signature::Mapped(operands(BOX, MappedOutput::Map(BOX))));
/// Everything that a call can ask for.
static BOXES_CALLED: Kernel =
    kernel("boxes_called", Signature::MappedCall(operands(BATCHED, MappedOutput::Map(BATCHED))));

const fn operands(factor: MappedOperand, c: MappedOutput) -> MappedOperands {
    MappedOperands { a: factor, b: factor, c, cluster: 1, blocks_stay: false }
}

const fn kernel(name: &'static str, signature: Signature) -> Kernel {
    Kernel {
        name,
        title: "boxes of 8 x 8",
        entry: name,
        architecture: Architecture::Compute90a,
        precision: Precision::Bf16,
        signature,
        tile: TILE,
        block: BLOCK,
        registers: Registers::Any,
        shared_bytes: 520,
        launch_shape: match signature {
            Signature::MappedCall(_) => |m, n, _| LaunchShape::flat(m, n, TILE, BLOCK, 0),
            _ => |m, n, _| LaunchShape::over_tiles(m, n, TILE, BLOCK),
        },
    }
}

const TILE: Tile = Tile { m: 8, n: 8, k: 8 };
const BLOCK: [u32; 3] = [64, 1, 1];

/// The module of a kernel.
fn ptx(kernel: &Kernel) -> String {
    let sizes = "
	.param .u64 ENTRY_param_3, .param .u64 ENTRY_param_4, .param .u64 ENTRY_param_5";
    let sizes_and_place = "
	ld.param.u64 %rd4, [ENTRY_param_3];
	ld.param.u64 %rd5, [ENTRY_param_4];
	ld.param.u64 %rd6, [ENTRY_param_5];
	mov.u32 %r4, %ctaid.x;
	shl.b32 %r4, %r4, 3;
	mov.u32 %r5, %ctaid.y;
	shl.b32 %r5, %r5, 3;";
    // Of a tile's element: its row and column in %rd10 and %rd11, if it's inside.
    let inside = "
	add.u32 %r30, %r5, %r3;
	add.u32 %r31, %r4, %r2;
	cvt.u64.u32 %rd10, %r30;
	cvt.u64.u32 %rd11, %r31;
	setp.ge.u64 %p5, %rd10, %rd4;
	@%p5 ret;
	setp.ge.u64 %p5, %rd11, %rd5;
	@%p5 ret;";
    let through_shared_memory = "
	mov.b64 %rd3, ENTRY_param_2;
	cvta.param.u64 %rd3, %rd3;
	shl.b32 %r30, %r1, 2;
	add.u32 %r30, %r12, %r30;
	st.shared.f32 [%r30], %f1;
	fence.proxy.async.shared::cta;
	bar.sync 0;
	@!%p1 ret;
	cp.async.bulk.tensor.RANK.global.shared::cta.bulk_group [%rd3, {%r4, %r5 PRODUCT}], [%r12];
	cp.async.bulk.commit_group;
	cp.async.bulk.wait_group 0;";
    let map = ".param .align 64 .b8 ENTRY_param_2[128],";
    let (parameters, sizes_and_place, store, [rank, product]) = match kernel.entry {
        "boxes" => {
            let store = "
	ld.param.u64 %rd3, [ENTRY_param_2];
	mad.lo.u64 %rd12, %rd10, %rd5, %rd11;
	shl.b64 %rd12, %rd12, 2;
	add.u64 %rd12, %rd3, %rd12;
	st.global.f32 [%rd12], %f1;";
            let pointer = ".param .u64 ENTRY_param_2,";
            (format!("{pointer}{sizes}"), sizes_and_place.to_owned(), format!("{inside}{store}"), ["2d", ""])
        }
        "boxes_stored" => {
            (format!("{map}{sizes}"), sizes_and_place.to_owned(), through_shared_memory.to_owned(), ["2d", ""])
        }
        _ => {
            let sizes_and_place = "
	ld.param.u32 %r32, [ENTRY_param_3+24];
	ld.param.u32 %r33, [ENTRY_param_3+28];
	ld.param.u32 %r34, [ENTRY_param_3+32];
	cvt.u64.u32 %rd4, %r32;
	cvt.u64.u32 %rd5, %r33;
	cvt.u64.u32 %rd6, %r34;
	add.u32 %r32, %r32, 7;
	shr.u32 %r32, %r32, 3;
	add.u32 %r33, %r33, 7;
	shr.u32 %r33, %r33, 3;
	mul.lo.u32 %r34, %r32, %r33;
	mov.u32 %r35, %ctaid.x;
	div.u32 %r8, %r35, %r34;
	rem.u32 %r35, %r35, %r34;
	div.u32 %r5, %r35, %r33;
	shl.b32 %r5, %r5, 3;
	rem.u32 %r4, %r35, %r33;
	shl.b32 %r4, %r4, 3;";
            let store = format!(
                "
	ld.param.f32 %f4, [ENTRY_param_3+52];
	ld.param.f32 %f5, [ENTRY_param_3+56];
	ld.param.u32 %r36, [ENTRY_param_3+60];
	mul.rn.f32 %f1, %f1, %f4;
	setp.neu.f32 %p6, %f5, 0f00000000;
	setp.eq.u32 %p7, %r36, 0;
	or.pred %p7, %p6, %p7;
	@%p7 bra one_by_one;{through_shared_memory}
	ret;
one_by_one:{inside}
	ld.param.u64 %rd3, [ENTRY_param_3];
	ld.param.u64 %rd13, [ENTRY_param_3+8];
	ld.param.u64 %rd14, [ENTRY_param_3+16];
	cvt.u64.u32 %rd15, %r8;
	mad.lo.u64 %rd12, %rd10, %rd13, %rd11;
	mad.lo.u64 %rd12, %rd15, %rd14, %rd12;
	shl.b64 %rd12, %rd12, 2;
	add.u64 %rd12, %rd3, %rd12;
	@%p6 ld.global.f32 %f6, [%rd12];
	@%p6 fma.rn.f32 %f1, %f6, %f5, %f1;
	st.global.f32 [%rd12], %f1;"
            );
            let call = format!("{map}\n	.param .align 8 .b8 ENTRY_param_3[80]");
            (call, sizes_and_place.to_owned(), store, ["3d", ", %r8"])
        }
    };
    let text = include_str!("common/boxes.ptx").replace("PARAMETERS", &parameters);
    let text = text.replace("SIZES_AND_PLACE", &sizes_and_place).replace("STORE", &store);
    text.replace("RANK", rank).replace("PRODUCT", product).replace("ENTRY", kernel.entry)
}

fn gemm(kernel: &Kernel) -> Gemm {
    let device = Device::open(DeviceSelector::Simulator).unwrap();
    // SAFETY: the device is the simulator.
    unsafe { Gemm::from_ptx(device, ptx(kernel)) }
}

fn halves(rows: usize, columns: usize, seed: u64) -> Array2<f32> {
    rounded(Precision::Bf16, matrix::random_normal(rows, columns, seed))
}

/// A matrix on the device with so many NaN before it and after each row.
fn with_gaps(device: &Device, matrix: &Array2<f32>, offset: usize, gap: usize) -> FactorBuffer {
    let (rows, columns) = matrix.dim();
    let mut wide = Array2::from_elem((rows, columns + gap), f32::NAN);
    wide.slice_mut(s![.., ..columns]).assign(matrix);
    let numbers: Vec<f32> = std::iter::repeat_n(f32::NAN, offset).chain(wide).collect();
    FactorBuffer::upload(device, ElementType::Bf16, &numbers).unwrap()
}

fn view(buffer: &FactorBuffer, offset: usize, [rows, columns]: [usize; 2], gap: usize) -> DeviceMatrix<'_> {
    let wide = buffer.matrix_at(offset, rows, columns + gap).unwrap();
    wide.slice(.., ..columns).unwrap()
}

#[test]
fn products_are_right_at_the_edges_of_boxes_and_where_rows_have_gaps() {
    for kernel in [&BOXES, &BOXES_STORED] {
        let gemm = gemm(kernel);
        let device = gemm.device();
        for [m, n, k] in [[8, 8, 8], [1, 8, 8], [5, 16, 24], [17, 24, 40], [3, 40, 8]] {
            let (a, b) = (halves(m, k, 1), halves(k, n, 2));
            let reference = verify::reference_in(Order::Ascending, a.view(), b.view());
            for (offset, gap) in [(0, 0), (8, 0), (16, 8)] {
                let (a, b) = (with_gaps(device, &a, offset, gap), with_gaps(device, &b, offset, gap));
                let c: DeviceBuffer<f32> = device.upload(&vec![f32::NAN; m * n]).unwrap();
                let (a, b) = (view(&a, offset, [m, k], gap), view(&b, offset, [k, n], gap));
                gemm.enqueue(kernel, a, b, c.matrix(m, n).unwrap()).unwrap();
                let c = Array2::from_shape_vec((m, n), c.download().unwrap()).unwrap();
                let verification = verify::compare(c.view(), &reference);
                assert!(verification.passed(), "{} of {m} x {n} x {k}: {verification:?}", kernel.name);
            }
        }
    }
}

#[test]
fn rows_of_c_may_have_gaps_where_the_kernel_copies_it() {
    let (a, b) = (halves(9, 16, 1), halves(16, 12, 2));
    let reference = verify::reference_in(Order::Ascending, a.view(), b.view());
    for (kernel, takes) in [(&BOXES_STORED, true), (&BOXES, false)] {
        let gemm = gemm(kernel);
        // B's rows of 24 bytes need gaps too.
        let (a, b) = (with_gaps(gemm.device(), &a, 0, 0), with_gaps(gemm.device(), &b, 0, 4));
        let c = gemm.device().upload(&[7.0f32; 9 * 20]).unwrap();
        let wide = c.matrix(9, 20).unwrap();
        let (a, b) = (view(&a, 0, [9, 16], 0), view(&b, 0, [16, 12], 4));
        let outcome = gemm.enqueue(kernel, a, b, wide.slice(.., ..12).unwrap());
        if !takes {
            assert!(matches!(outcome, Err(GemmError::NotPacked { matrix: "C", .. })), "{outcome:?}");
            continue;
        }
        outcome.unwrap();
        let c = Array2::from_shape_vec((9, 20), c.download().unwrap()).unwrap();
        let (product, gap) = c.view().split_at(ndarray::Axis(1), 12);
        assert!(verify::compare(product, &reference).passed());
        assert!(gap.iter().all(|&element| element == 7.0), "what lies between the rows of C changed");
    }
}

#[test]
fn a_batch_is_one_launch_after_the_other() {
    let gemm = gemm(&BOXES);
    let device = gemm.device();
    let (a, b) = (halves(3 * 8, 16, 1), halves(3 * 16, 8, 2));
    let [a_buffer, b_buffer] = [&a, &b].map(|matrix| with_gaps(device, matrix, 0, 0));
    let mut c = device.upload(&vec![f32::NAN; 3 * 64]).unwrap();
    let product = gemm.product(a_buffer.batch_at(0, 3, 8, 16).unwrap(), b_buffer.batch_at(0, 3, 16, 8).unwrap());
    let output = DeviceMatricesMut::new(&mut c, 0, 3, 8, 8).unwrap();
    product.with_plan(Plan::new(&BOXES)).enqueue_into(output).unwrap();
    let c = Array2::from_shape_vec((3 * 8, 8), c.download().unwrap()).unwrap();
    for index in 0..3 {
        let part =
            |matrix: &Array2<f32>, rows: usize| matrix.slice(s![index * rows..(index + 1) * rows, ..]).to_owned();
        let reference = verify::reference_in(Order::Ascending, part(&a, 8).view(), part(&b, 16).view());
        assert!(verify::compare(part(&c, 8).view(), &reference).passed(), "product {index}");
    }
}

/// C = alpha A B + beta C of a batch with [`BOXES_CALLED`], C with so many elements between its rows.
fn check_called([m, n, k]: [usize; 3], count: usize, shared_b: bool, gap: usize, (alpha, beta): (f32, f32)) {
    let case = format!("{count} * {m} x {n} x {k}, shared {shared_b}, gap {gap}, {alpha}, {beta}");
    let gemm = gemm(&BOXES_CALLED);
    let device = gemm.device();
    let b_count = if shared_b { 1 } else { count };
    let (a, b) = (halves(count * m, k, 1), halves(b_count * k, n, 2));
    let c = matrix::random_normal(count * m, n + gap, 3);
    let b_gap = n.next_multiple_of(8) - n;
    let (a_buffer, b_buffer) = (with_gaps(device, &a, 0, 0), with_gaps(device, &b, 0, b_gap));
    let mut c_buffer = device.upload(c.as_slice().unwrap()).unwrap();
    let a_batch = a_buffer.batch_at(0, count, m, k).unwrap();
    let FactorBuffer::Bf16(b_elements) = &b_buffer else { unreachable!("with_gaps uploads bf16") };
    let b_strides = [b_count, k * (n + b_gap)];
    let b_batch = DeviceMatrices::with_strides(b_elements, 0, b_strides, k, n, n + b_gap).unwrap();
    let product = match shared_b {
        true => gemm.product(a_batch, view(&b_buffer, 0, [k, n], b_gap)),
        false => gemm.product(a_batch, b_batch),
    };
    let c_strides = [count, m * (n + gap)];
    let output = DeviceMatricesMut::with_strides(&mut c_buffer, 0, c_strides, m, n, n + gap).unwrap();
    product.alpha(alpha).beta(beta).with_plan(Plan::new(&BOXES_CALLED)).enqueue_into(output).unwrap();
    let result = Array2::from_shape_vec((count * m, n + gap), c_buffer.download().unwrap()).unwrap();
    for index in 0..count {
        let part = |all: &Array2<f32>, index: usize, [rows, columns]: [usize; 2]| {
            all.slice(s![index * rows..(index + 1) * rows, ..columns]).to_owned()
        };
        let (a, b) = (part(&a, index, [m, k]), part(&b, if shared_b { 0 } else { index }, [k, n]));
        let [before, after] = [&c, &result].map(|c| part(c, index, [m, n]));
        let reference = verify::reference_in(Order::Any, a.view(), b.view()).scaled(alpha, beta, Some(before.view()));
        let verification = verify::compare(after.view(), &reference);
        assert!(verification.passed(), "{case}, product {index}: {verification:?}");
    }
    let between = |c: &Array2<f32>| c.slice(s![.., n..]).to_owned();
    assert_eq!(between(&result), between(&c), "{case}: what lies between the rows of C changed");
}

#[test]
fn a_call_has_factors_batches_and_a_c_of_any_distances() {
    for sizes in [[8, 8, 8], [5, 12, 24], [17, 7, 16]] {
        for factors in [(1.0, 0.0), (1.5, 0.0), (-2.0, 0.5)] {
            // C's rows of 7 elements can't be copied as boxes, and of 8 or 12 can.
            for gap in [0, 1, 4] {
                check_called(sizes, 1, false, gap, factors);
                check_called(sizes, 3, false, gap, factors);
                check_called(sizes, 2, true, gap, factors);
            }
        }
    }
}

#[test]
fn rows_that_do_not_begin_at_multiples_of_16_bytes_are_refused_with_what_is_needed() {
    let gemm = gemm(&BOXES);
    let (a, b) = (halves(8, 12, 1), halves(12, 8, 2));
    let error = gemm.multiply_timed(&BOXES, a.view(), b.view(), Timing::Once).unwrap_err();
    assert!(matches!(error, GemmError::Unmappable { kernel: "boxes", matrix: "A", .. }), "{error}");
    assert!(error.to_string().contains("multiples of 16 bytes") && error.to_string().contains("24 bytes"), "{error}");
    assert!(ensure_sizes(&BOXES, [8, 8, 12]).is_err());
    assert!(Named::Kernel(&BOXES).for_rows([8, 8, 12]).is_err() && Named::Kernel(&BOXES).for_rows([8; 3]).is_ok());

    // A matrix that begins where it can't.
    let buffer = gemm.device().upload(&[bf16::ONE; 200]).unwrap();
    let c = gemm.device().allocate::<f32>(64).unwrap();
    let [odd, even] = [4, 72].map(|offset| DeviceMatrix::new(&buffer, offset, 8, 8).unwrap());
    let error = gemm.enqueue(&BOXES, even, odd, c.matrix(8, 8).unwrap()).unwrap_err();
    assert!(matches!(error, GemmError::Unmappable { matrix: "B", .. }), "{error}");
    let error = gemm.enqueue(&BOXES, even.transposed(), even, c.matrix(8, 8).unwrap()).unwrap_err();
    assert!(error.to_string().contains("contiguous rows"), "{error}");
}

#[test]
fn factors_of_the_product_and_parts_of_k_are_refused() {
    let gemm = gemm(&BOXES);
    let buffer = gemm.device().upload(&[bf16::ONE; 256]).unwrap();
    let mut c = gemm.device().allocate::<f32>(64).unwrap();
    let (a, b) = (buffer.matrix(8, 32).unwrap(), buffer.matrix(32, 8).unwrap());
    let plan = Plan::new(&BOXES);
    for product in [gemm.product(a, b).alpha(2.0).with_plan(plan), gemm.product(a, b).beta(1.0).with_plan(plan)] {
        let error = product.enqueue_into(c.matrix_mut(8, 8).unwrap()).unwrap_err();
        assert!(matches!(error, GemmError::PlainOnly { kernel: "boxes" }), "{error}");
    }
    let in_parts = gemm.product(a, b).with_plan(Plan { splits: 2, ..plan });
    let error = in_parts.enqueue_into(c.matrix_mut(8, 8).unwrap()).unwrap_err();
    assert!(matches!(error, GemmError::WholeOnly { kernel: "boxes" }), "{error}");
}

#[test]
fn without_anything_to_multiply_c_is_zeros() {
    let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
    for kernel in [&BOXES, &BOXES_CALLED] {
        let nothing = gemm.device().upload(&[bf16::ONE; 0]).unwrap();
        let c = gemm.device().upload(&[f32::NAN; 45]).unwrap();
        let (a, b) = (nothing.matrix(5, 0).unwrap(), nothing.matrix(0, 9).unwrap());
        gemm.enqueue(kernel, a, b, c.matrix(5, 9).unwrap()).unwrap();
        assert_eq!(c.download().unwrap(), [0.0; 45]);
    }
}

#[test]
fn check_takes_sizes_that_the_kernel_can_copy() {
    let cases = check::cases(Named::Kernel(&BOXES));
    let shapes: Vec<_> = cases.iter().map(|case: &Case| case.shape).collect();
    assert_eq!(shapes, [[16, 16, 24], [19, 16, 32]]);
}
