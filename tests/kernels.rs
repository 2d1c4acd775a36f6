//! Every kernel, of the book and of production, is right at the edges of its own tile, however its matrices lie, and touches
//! nothing else; and the same product has the same bits every time.
//!
//! The shapes here follow from each kernel's tile, those of `products.rs` and `library.rs` don't.

mod common;

use std::env;

use common::case::{Batch, Case, Place, assert_bits, check};
use gpu_kernels::{KERNELS, Kernel, Signature, launch::ElementType};
use host::{
    device::{Device, DeviceSelector},
    gemm::{DeviceMatrices, DeviceMatricesMut, Gemm, next_sizes},
    matrix,
    plan::Plan,
};
use production_kernels::{Copying, FAMILIES, Family, entries::WAYS};

/// A kernel, and how it copies A and B.
#[derive(Clone, Copy)]
struct Subject {
    kernel: &'static Kernel,
    ways: (Copying, Copying),
}

/// Every kernel that there is, but for the one that adds up splits, which comes with those of the production kernels. The
/// general one of the book takes matrices that lie in any way, its others row-major ones only.
fn subjects() -> Vec<Subject> {
    let of_the_book = |kernel: &'static Kernel| {
        let ways = if kernel.signature == Signature::Call { &WAYS[..] } else { &WAYS[..1] };
        ways.iter().map(move |&ways| Subject { kernel, ways })
    };
    let of_a_family =
        |family: &'static Family| family.kernels.iter().zip(WAYS).map(|(kernel, ways)| Subject { kernel, ways });
    let on_tensor_cores = |family: &'static hopper_kernels::Family| {
        family.kernels.iter().map(|kernel| {
            let [a, b] = host::kernels::by_columns(kernel);
            let way = |is_along_k| if is_along_k { Copying::AlongK } else { Copying::Words };
            Subject { kernel, ways: (way(!a), way(b)) }
        })
    };
    let books = KERNELS.iter().flat_map(of_the_book);
    let production = FAMILIES.iter().flat_map(of_a_family);
    books.chain(production).chain(hopper_kernels::FAMILIES.iter().flat_map(on_tensor_cores)).collect()
}

/// Sizes of a product: rows and columns of C, and the inner dimension.
type Sizes = [usize; 3];

impl Subject {
    /// A case of about these sizes: what is copied as vectors comes in fours.
    ///
    /// `tight` matrices end where their buffers do, and have no gaps as long as that doesn't align them; whoever watches
    /// accesses sees every one that leaves them. Others lie between guard values.
    fn case(&self, [m, n, k]: Sizes, tight: bool, (alpha, beta): (f32, f32)) -> Case {
        let (a, b) = self.ways;
        let fours = |size: usize, way| if way == Copying::Vectors { size.next_multiple_of(4) } else { size };
        let [m, n, k] = next_sizes(self.kernel, [fours(m, a), fours(n, b), k]);
        // Such matrices that they needn't be put elsewhere, and others.
        let can_be_mapped = tight && matches!(self.kernel.signature, Signature::MappedCall(_));
        let [m, n, k] = if can_be_mapped { [m, n, k].map(|size| size.next_multiple_of(8)) } else { [m, n, k] };
        let place = |way, transposed| {
            let [offset, gap, after] = match (tight, way == Copying::Vectors) {
                (true, true) => [0, 0, 0],
                (true, false) => [1, 0, 0],
                (false, true) => [4, 4, 3],
                (false, false) => [3, 5, 3],
            };
            Place { offset, gap, between: 0, after, transposed }
        };
        // What isn't contiguous along K is contiguous across it.
        let a_place = place(a, a != Copying::AlongK);
        let b_place = place(b, b == Copying::AlongK);
        let c_place = if tight { Place::default() } else { place(Copying::Words, false) };
        let places = match self.kernel.signature {
            Signature::Plain => [Place::default(); 3],
            Signature::MappedCall(_) if can_be_mapped => self.mappable_places(0),
            Signature::Call | Signature::MappedCall(_) | Signature::MappedParts(_) => [a_place, b_place, c_place],
            Signature::Mapped(_) => self.mappable_places(if tight { 0 } else { 8 }),
        };
        Case {
            m,
            n,
            k,
            alpha,
            beta,
            places,
            batch: Batch::None,
            count: 1,
            shared: [false; 2],
            half_c: false,
            seed: (m * n * k) as u64,
        }
    }

    /// Lines that begin at multiples of 16 bytes, with gaps or without.
    fn mappable_places(&self, apart: usize) -> [Place; 3] {
        let [a, b] = host::kernels::by_columns(self.kernel);
        let place = |transposed| Place { offset: apart, gap: apart, between: 0, after: apart, transposed };
        [place(a), place(b), Place::default()]
    }

    /// What it has to get right, and in how many splits.
    fn cases(&self) -> Vec<(Case, u32)> {
        let [m, n, k] = [self.kernel.tile.m, self.kernel.tile.n, self.kernel.tile.k].map(|size| size as usize);
        let plain = (1.0, 0.0);
        // Less than a tile, a tile and a little more, and nothing but whole tiles.
        let sizes: [Sizes; 3] = [[m.min(5), n.min(7), k.min(3)], [m + 1, n + 1, 2 * k + 1], [m, 2 * n, 3 * k]];
        if self.kernel.signature.mapped().is_some() {
            let mut cases: Vec<_> = [true, false]
                .into_iter()
                .flat_map(|tight| sizes.map(|sizes| (self.case(sizes, tight, plain), 1)))
                .collect();
            if !matches!(self.kernel.signature, Signature::Mapped(_)) {
                let factors = self.case([m + 1, n + 1, 2 * k + 1], false, (1.5, -0.5));
                let batch =
                    Case { batch: Batch::Strided, count: 3, ..self.case([m / 2 + 1, n + 1, k + 1], true, (2.0, 0.0)) };
                cases.extend([(factors, 1), (batch, 1)]);
            }
            if let Signature::MappedCall(_) = self.kernel.signature {
                let list = Case {
                    batch: Batch::Listed,
                    count: 2,
                    shared: [true, false],
                    ..self.case([m / 2 + 1, n + 1, k + 1], false, (1.0, 0.5))
                };
                // The last split is shorter; a batch has all splits of a product behind each other.
                let split = self.case([m + 1, n + 1, 5 * k + 3], true, plain);
                let splits =
                    Case { batch: Batch::Strided, count: 2, ..self.case([m, n / 2 + 1, 3 * k], false, (2.0, 0.5)) };
                // Without products to add up: C = beta C.
                let nothing = self.case([m + 1, n + 1, 0], false, (2.0, 0.5));
                cases.extend([(list, 1), (split, 3), (splits, 2), (nothing, 1)]);
                if self.kernel.precision.factors() != ElementType::F32 {
                    let halves = |case: &Case| Case { half_c: true, ..case.clone() };
                    cases.extend([1, 4, 6, 7, 9, 11].map(|at| (halves(&cases[at].0), cases[at].1)));
                }
            }
            return cases;
        }
        if self.kernel.signature == Signature::Plain {
            return sizes.map(|sizes| (self.case(sizes, true, plain), 1)).to_vec();
        }
        let [less, more, whole] = sizes;
        let batch = |batch, count, shared, sizes: Sizes, tight| {
            let case = self.case(sizes, tight, (1.0, 0.5));
            // Lists are made by cutting one tall matrix up; vectors need every matrix of a batch aligned.
            let between = if batch == Batch::Listed { 0 } else { 4 };
            let places = case.places.map(|place| Place { between, ..place });
            Case { places, batch, count, shared, ..case }
        };
        let one = |size: usize| size.div_ceil(2) + 1;
        let mut cases = vec![
            (self.case(less, true, plain), 1),
            (self.case(more, true, plain), 1),
            (self.case(more, false, (1.5, -0.5)), 1),
            (self.case(whole, true, (-1.0, 1.0)), 1),
            (batch(Batch::Strided, 3, [false; 2], [one(m), one(n), k + 1], false), 1),
            (batch(Batch::Listed, 2, [true, false], [one(m), n + 1, k.max(2) - 1], false), 1),
        ];
        if self.kernel.architecture.compute_capability() >= (8, 0) {
            // The last split is shorter, and the sums of many are added up by several threads.
            let split = |sizes, tight, factors| self.case(sizes, tight, factors);
            cases.push((split([m.max(2) - 1, n + 1, 5 * k + 3], true, plain), 3));
            cases.push((split([m + 1, n.max(2) - 1, 9 * k + 1], false, (2.0, 0.5)), 8));
            cases.push((batch(Batch::Strided, 2, [false, true], [one(m), one(n), 2 * k + 1], true), 2));
            // Without products to add up: C = beta C.
            cases.push((self.case([m + 1, n + 1, 0], false, (2.0, 0.5)), 1));
        }
        cases
    }

    /// Computes its cases and compares every element.
    fn check(&self, gemm: &Gemm) {
        for (case, splits) in self.cases() {
            let plan = Plan { kernel: self.kernel, splits, group: 2 };
            let used = check(gemm, &case, Some(plan)).map(|kernel| kernel.name);
            assert_eq!(used, Some(self.kernel.name), "another kernel took its place: {case:?}");
        }
    }
}

#[test]
fn every_kernel_is_right_at_the_edges_of_its_tile() {
    for gemm in common::devices().into_iter().map(Gemm::new) {
        for subject in subjects().into_iter().filter(|subject| common::runs(gemm.device(), subject.kernel)) {
            subject.check(&gemm);
        }
    }
}

#[test]
fn blocks_that_stay_take_one_tile_after_the_other_and_go_round_their_stages_again_and_again() {
    let stays = |subject: &Subject| subject.kernel.signature.mapped().is_some_and(|operands| operands.blocks_stay);
    let of_the_book = |subject: &Subject| KERNELS.iter().any(|kernel| kernel.name == subject.kernel.name);
    for gemm in common::devices().into_iter().map(Gemm::new) {
        let subjects = subjects().into_iter().filter(|subject| stays(subject) && of_the_book(subject));
        for subject in subjects.filter(|subject| common::runs(gemm.device(), subject.kernel)) {
            // A tile more than there are blocks, and one that isn't whole, in a single column; more steps than stages.
            let tile = subject.kernel.tile;
            let rows = (gemm.device().machine().multiprocessors + 1) * tile.m + 1;
            let case = subject.case([rows as usize, 8, 6 * tile.k as usize], true, (1.0, 0.0));
            let plan = Plan { kernel: subject.kernel, splits: 1, group: 2 };
            let used = check(&gemm, &case, Some(plan)).map(|kernel| kernel.name);
            assert_eq!(used, Some(subject.kernel.name), "another kernel took its place: {case:?}");
        }
    }
}

/// For tools that watch a process, such as compute-sanitizer: `PART=3/8` runs the third eighth of all kernels on the first GPU,
/// and says which they are.
#[test]
#[ignore = "needs a GPU and the variable PART"]
fn a_part_of_all_kernels_is_right_on_the_gpu() {
    let part = env::var("PART").expect("PART says which part of the kernels, such as 3/8");
    let numbers = part.split_once('/').and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    let (part, parts): (usize, usize) = numbers.expect("PART is two numbers, such as 3/8");
    assert!((1..=parts).contains(&part), "there is no part {part} of {parts}");
    let gemm = Gemm::new(Device::open(DeviceSelector::Cuda(None)).unwrap());
    let subjects = subjects();
    for (index, subject) in subjects.iter().enumerate().skip(part - 1).step_by(parts) {
        // A watched process may end any time: what it was at is to be seen.
        println!("\nkernel {} of {}: {}", index + 1, subjects.len(), subject.kernel.name);
        subject.check(&gemm);
    }
}

/// Computes a product, or a batch, `runs` times on each of two streams at once and compares the bits.
fn assert_same_bits_always(gemm: &Gemm, [m, n, k]: Sizes, count: usize, plan: Option<Plan>, runs: usize) {
    let device = gemm.device();
    let a = device.upload(matrix::random_normal(count * m, k, 1).as_slice().unwrap()).unwrap();
    let b = device.upload(matrix::random_normal(count * k, n, 2).as_slice().unwrap()).unwrap();
    let streams = [device.new_stream().unwrap(), device.new_stream().unwrap()];
    let mut outputs = [(), ()].map(|()| device.allocate::<f32>(count * m * n).unwrap());
    let mut first = None;
    for _ in 0..runs {
        for (stream, output) in streams.iter().zip(&mut outputs) {
            let a = DeviceMatrices::new(&a, 0, count, m, k).unwrap();
            let b = DeviceMatrices::new(&b, 0, count, k, n).unwrap();
            let mut product = gemm.product(a, b).on(stream);
            if let Some(plan) = plan {
                product = product.with_plan(plan);
            }
            product.enqueue_into(DeviceMatricesMut::new(output, 0, count, m, n).unwrap()).unwrap();
        }
        for output in &mut outputs {
            let elements = output.download().unwrap();
            output.copy_from(&vec![f32::NAN; elements.len()]).unwrap();
            assert!(elements.iter().all(|element| !element.is_nan()), "{count} of {m} x {n} x {k}: not all written");
            let first = first.get_or_insert_with(|| elements.clone());
            assert_bits(&elements, first);
        }
    }
}

#[test]
fn a_split_product_has_the_same_bits_every_time_with_every_tile() {
    for gemm in common::devices().into_iter().map(Gemm::new) {
        let runs = if gemm.device().is_simulator() { 2 } else { 20 };
        for kernel in FAMILIES.iter().map(|family| &family.kernels[0]) {
            let [m, n, k] = [kernel.tile.m, kernel.tile.n, kernel.tile.k].map(|size| size as usize);
            let plan = Plan { kernel, splits: 9, group: 1 };
            assert_same_bits_always(&gemm, [m + 1, n + 1, 17 * k + 3], 1, Some(plan), runs);
        }
    }
}

#[test]
fn a_product_of_any_kind_has_the_same_bits_every_time_on_a_gpu() {
    let Ok(device) = Device::open(DeviceSelector::Cuda(None)) else { return };
    let gemm = Gemm::new(device);
    // Squares, few rows, few columns, deep ones, and batches; then what nothing is a multiple of.
    let squares = [256, 512, 1024, 2048, 4096, 8192].map(|size| ([size; 3], 1));
    let others = [
        ([16, 8192, 8192], 1),
        ([8192, 16, 8192], 1),
        ([8192, 8192, 16], 1),
        ([64, 64, 65_536], 1),
        ([64; 3], 1000),
        ([256; 3], 100),
        ([1001, 333, 4999], 1),
        ([77, 513, 30_011], 2),
    ];
    for (sizes, count) in squares.into_iter().chain(others) {
        assert_same_bits_always(&gemm, sizes, count, None, 20);
    }
}
