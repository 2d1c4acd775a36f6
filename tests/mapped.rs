//! Kernels that copy whole boxes get the tensor maps that they ask for in their descriptors, whatever the matrices: tried with
//! small ones written by hand, on the simulator.

mod common;

use gpu_kernels::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile, launch::ElementType};
use half::bf16;
use host::{
    check::{self, Case},
    device::{Device, DeviceBuffer, DeviceSelector},
    gemm::{DeviceMatricesMut, DeviceMatrix, FactorBuffer, Gemm, GemmError, Timing, ensure_sizes, rounded},
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

/// C by pointer.
static BOXES: Kernel = kernel("boxes", MappedOutput::Pointer);
/// C by tensor map.
static BOXES_STORED: Kernel = kernel("boxes_stored", MappedOutput::Map(BOX));

const fn kernel(name: &'static str, c: MappedOutput) -> Kernel {
    Kernel {
        name,
        title: "boxes of 8 x 8",
        entry: name,
        architecture: Architecture::Compute90a,
        precision: Precision::Bf16,
        signature: Signature::Mapped(MappedOperands { a: BOX, b: BOX, c, cluster: 1 }),
        tile: TILE,
        block: BLOCK,
        registers: Registers::Any,
        shared_bytes: 520,
        launch_shape: |m, n, _| LaunchShape::over_tiles(m, n, TILE, BLOCK),
    }
}

const TILE: Tile = Tile { m: 8, n: 8, k: 8 };
const BLOCK: [u32; 3] = [64, 1, 1];

/// The module of a kernel.
fn ptx(kernel: &Kernel) -> String {
    let (parameter, store) = match kernel.entry {
        "boxes" => (
            ".param .u64 ENTRY_param_2",
            "ld.param.u64 %rd3, [ENTRY_param_2];
	cvta.to.global.u64 %rd3, %rd3;
	add.u32 %r30, %r5, %r3;
	add.u32 %r31, %r4, %r2;
	cvt.u64.u32 %rd10, %r30;
	cvt.u64.u32 %rd11, %r31;
	setp.ge.u64 %p5, %rd10, %rd4;
	@%p5 ret;
	setp.ge.u64 %p5, %rd11, %rd5;
	@%p5 ret;
	mad.lo.u64 %rd12, %rd10, %rd5, %rd11;
	shl.b64 %rd12, %rd12, 2;
	add.u64 %rd12, %rd3, %rd12;
	st.global.f32 [%rd12], %f1;",
        ),
        _ => (
            ".param .align 64 .b8 ENTRY_param_2[128]",
            "mov.b64 %rd3, ENTRY_param_2;
	cvta.param.u64 %rd3, %rd3;
	shl.b32 %r30, %r1, 2;
	add.u32 %r30, %r12, %r30;
	st.shared.f32 [%r30], %f1;
	fence.proxy.async.shared::cta;
	bar.sync 0;
	@!%p1 ret;
	cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd3, {%r4, %r5}], [%r12];
	cp.async.bulk.commit_group;
	cp.async.bulk.wait_group 0;",
        ),
    };
    let text = include_str!("common/boxes.ptx");
    text.replace("C_PARAMETER", parameter).replace("STORE", store).replace("ENTRY", kernel.entry)
}

fn gemm(kernel: &Kernel) -> Gemm {
    let device = Device::open(DeviceSelector::Simulator).unwrap();
    // SAFETY: the device is the simulator.
    unsafe { Gemm::from_ptx(device, ptx(kernel)) }
}

fn halves(rows: usize, columns: usize, seed: u64) -> Array2<f32> {
    rounded(ElementType::Bf16, matrix::random_normal(rows, columns, seed))
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
    for product in [
        gemm.product(a, b).alpha(2.0).with_plan(plan),
        gemm.product(a, b).beta(1.0).with_plan(plan),
        gemm.product(a, b).with_plan(Plan { splits: 2, ..plan }),
    ] {
        let error = product.enqueue_into(c.matrix_mut(8, 8).unwrap()).unwrap_err();
        assert!(matches!(error, GemmError::PlainOnly { kernel: "boxes" }), "{error}");
    }
}

#[test]
fn without_anything_to_multiply_c_is_zeros() {
    let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
    let nothing = gemm.device().upload(&[bf16::ONE; 0]).unwrap();
    let c = gemm.device().upload(&[f32::NAN; 45]).unwrap();
    let (a, b) = (nothing.matrix(5, 0).unwrap(), nothing.matrix(0, 9).unwrap());
    gemm.enqueue(&BOXES, a, b, c.matrix(5, 9).unwrap()).unwrap();
    assert_eq!(c.download().unwrap(), [0.0; 45]);
}

#[test]
fn check_takes_sizes_that_the_kernel_can_copy() {
    let cases = check::cases(Named::Kernel(&BOXES));
    let shapes: Vec<_> = cases.iter().map(|case: &Case| case.shape).collect();
    assert_eq!(shapes, [[16, 16, 24], [19, 16, 32]]);
}
