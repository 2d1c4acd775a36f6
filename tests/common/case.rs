//! One product as BLAS knows it, computed between guard values and compared element by element.

use gpu_kernels::{Kernel, Precision, launch::ElementType};
use half::{bf16, f16};
use host::{
    device::{Device, DeviceBuffer, MatrixElement},
    gemm::{
        DeviceMatrices, DeviceMatricesMut, DeviceMatrix, DeviceMatrixMut, Gemm, MatrixList, MatrixListMut, rounded,
    },
    matrix,
    plan::Plan,
    verify,
};
use ndarray::Array2;

/// What buffers hold where no matrix is: a NaN that is in no input, so that reading it shows in the product.
pub const GUARD: f32 = f32::from_bits(0x7fc0_dead);

/// A number that A and B can hold.
trait Factor: MatrixElement {
    /// The nearest to a number.
    fn nearest(number: f32) -> Self;
    /// The number that it is.
    fn number(self) -> f32;
}

impl Factor for f32 {
    fn nearest(number: f32) -> f32 {
        number
    }
    fn number(self) -> f32 {
        self
    }
}

impl Factor for bf16 {
    fn nearest(number: f32) -> bf16 {
        bf16::from_f32(number)
    }
    fn number(self) -> f32 {
        self.to_f32()
    }
}

impl Factor for f16 {
    fn nearest(number: f32) -> f16 {
        f16::from_f32(number)
    }
    fn number(self) -> f32 {
        self.to_f32()
    }
}

/// Asserts that both have the same bits, and says where they don't.
pub fn assert_bits(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    if let Some(at) = got.iter().zip(expected).position(|(got, expected)| got.to_bits() != expected.to_bits()) {
        panic!("element {at} of {} is {:?} instead of {:?}", got.len(), got[at], expected[at]);
    }
}

/// How an operand lies in its buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Elements before it.
    pub offset: usize,
    /// Elements between rows.
    pub gap: usize,
    /// Elements between matrices of a batch.
    pub between: usize,
    /// Elements after the last one of the last matrix.
    pub after: usize,
    /// Whether memory holds the transpose of what is meant.
    pub transposed: bool,
}

/// Matrices of one shape as they lie in a buffer, with guard values everywhere else.
struct Stored {
    place: Place,
    /// Rows and columns in memory.
    rows: usize,
    columns: usize,
    matrices: Vec<Array2<f32>>,
    elements: Vec<f32>,
}

impl Stored {
    fn new(place: Place, (rows, columns): (usize, usize), matrices: Vec<Array2<f32>>) -> Stored {
        let (rows, columns) = if place.transposed { (columns, rows) } else { (rows, columns) };
        let mut stored = Stored { place, rows, columns, matrices: Vec::new(), elements: Vec::new() };
        let end = match (matrices.len(), rows, columns) {
            (0, ..) | (_, 0, _) | (.., 0) => place.offset + stored.stride() * matrices.len(),
            (count, ..) => stored.at(count - 1, rows - 1, columns - 1) + 1,
        };
        stored.elements = vec![GUARD; end + place.after];
        for (index, matrix) in matrices.iter().enumerate() {
            let matrix = if place.transposed { matrix.t() } else { matrix.view() };
            for ((row, column), &element) in matrix.indexed_iter() {
                let at = stored.at(index, row, column);
                stored.elements[at] = element;
            }
        }
        stored.matrices = matrices;
        stored
    }

    fn leading(&self) -> usize {
        self.columns + self.place.gap
    }

    fn stride(&self) -> usize {
        self.rows * self.leading() + self.place.between
    }

    fn at(&self, index: usize, row: usize, column: usize) -> usize {
        self.place.offset + index * self.stride() + row * self.leading() + column
    }

    /// Matrix `index` of `elements`, as it is meant.
    fn read(&self, elements: &[f32], index: usize) -> Array2<f32> {
        let matrix =
            Array2::from_shape_fn((self.rows, self.columns), |(row, column)| elements[self.at(index, row, column)]);
        if self.place.transposed { matrix.reversed_axes() } else { matrix }
    }

    /// `elements` with the matrices taken out.
    fn around(&self, elements: &[f32]) -> Vec<f32> {
        let mut around = elements.to_vec();
        for index in 0..self.matrices.len() {
            for row in 0..self.rows {
                for column in 0..self.columns {
                    around[self.at(index, row, column)] = GUARD;
                }
            }
        }
        around
    }

    fn matrix<'a, T: Factor>(&self, buffer: &'a DeviceBuffer<T>, index: usize) -> DeviceMatrix<'a> {
        let offset = self.at(index, 0, 0);
        let matrix = DeviceMatrix::with_leading(buffer, offset, self.rows, self.columns, self.leading()).unwrap();
        if self.place.transposed { matrix.transposed() } else { matrix }
    }

    fn batch<'a, T: Factor>(&self, buffer: &'a DeviceBuffer<T>) -> DeviceMatrices<'a> {
        let (count, rows, columns) = (self.matrices.len(), self.rows, self.columns);
        let steps = [count, self.stride()];
        let batch = DeviceMatrices::with_strides(buffer, self.place.offset, steps, rows, columns, self.leading());
        if self.place.transposed { batch.unwrap().transposed() } else { batch.unwrap() }
    }

    fn matrix_mut<'a, T: Factor>(&self, buffer: &'a mut DeviceBuffer<T>) -> DeviceMatrixMut<'a> {
        let offset = self.at(0, 0, 0);
        let matrix = DeviceMatrixMut::with_leading(buffer, offset, self.rows, self.columns, self.leading()).unwrap();
        if self.place.transposed { matrix.transposed() } else { matrix }
    }

    fn batch_mut<'a, T: Factor>(&self, buffer: &'a mut DeviceBuffer<T>) -> DeviceMatricesMut<'a> {
        let (count, rows, columns) = (self.matrices.len(), self.rows, self.columns);
        let steps = [count, self.stride()];
        let batch = DeviceMatricesMut::with_strides(buffer, self.place.offset, steps, rows, columns, self.leading());
        if self.place.transposed { batch.unwrap().transposed() } else { batch.unwrap() }
    }

    /// Each matrix to write, by cutting the buffer up.
    fn list_mut<'a, T: Factor>(&self, device: &Device, buffer: &'a mut DeviceBuffer<T>) -> MatrixListMut<'a> {
        // Without elements between them the matrices are one tall matrix.
        let mut rest = DeviceMatrixMut::with_leading(
            buffer,
            self.place.offset,
            self.matrices.len() * self.rows,
            self.columns,
            self.leading(),
        )
        .unwrap();
        let mut matrices = Vec::new();
        for _ in &self.matrices {
            let (matrix, others) = rest.split_at_row(self.rows).unwrap();
            matrices.push(if self.place.transposed { matrix.transposed() } else { matrix });
            rest = others;
        }
        MatrixListMut::new(device, matrices).unwrap()
    }
}

/// How the matrices of a batch are given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Batch {
    /// It isn't one.
    None,
    /// By their distance.
    Strided,
    /// Each by its place.
    Listed,
}

/// A product: C = alpha op(A) op(B) + beta C, or a batch of them.
#[derive(Clone, Debug)]
pub struct Case {
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// The inner dimension.
    pub k: usize,
    /// What the product is multiplied with.
    pub alpha: f32,
    /// What C is multiplied with before that is added to it.
    pub beta: f32,
    /// Where A, B and C are.
    pub places: [Place; 3],
    /// Whether it is a batch.
    pub batch: Batch,
    /// How many products; 1 if it isn't a batch.
    pub count: usize,
    /// Whether A and B are one matrix for the whole batch.
    pub shared: [bool; 2],
    /// Whether C has the elements of A and B instead of f32.
    pub half_c: bool,
    /// What the elements are drawn from.
    pub seed: u64,
}

/// Computes the case, as `plan` says or as the library likes, and compares every element. Gives the kernel, as far as A and B
/// tell: C isn't transposed, and the batch isn't empty.
pub fn check(gemm: &Gemm, case: &Case, plan: Option<Plan>) -> Option<&'static Kernel> {
    check_in(gemm, case, plan.map_or(Precision::F32, |plan| plan.kernel.precision), plan)
}

/// The same in a precision.
pub fn check_in(gemm: &Gemm, case: &Case, precision: Precision, plan: Option<Plan>) -> Option<&'static Kernel> {
    match (precision.factors(), case.half_c) {
        (ElementType::F32, _) => check_with::<f32, f32>(gemm, case, precision, plan),
        (ElementType::Bf16, false) => check_with::<bf16, f32>(gemm, case, precision, plan),
        (ElementType::Bf16, true) => check_with::<bf16, bf16>(gemm, case, precision, plan),
        (ElementType::F16, false) => check_with::<f16, f32>(gemm, case, precision, plan),
        (ElementType::F16, true) => check_with::<f16, f16>(gemm, case, precision, plan),
    }
}

/// The same, with A and B, and C, of such elements.
fn check_with<T: Factor, U: Factor>(
    gemm: &Gemm,
    case: &Case,
    precision: Precision,
    plan: Option<Plan>,
) -> Option<&'static Kernel> {
    let Case { m, n, k, alpha, beta, places, batch, count, shared, half_c: _, seed } = case.clone();
    let device = gemm.device();
    let matrices = |number: u64, count: usize, (rows, columns): (usize, usize)| -> Vec<_> {
        (0..count as u64).map(|index| matrix::random_normal(rows, columns, seed ^ (number << 8 | index))).collect()
    };
    let counts = shared.map(|shared| if shared || batch == Batch::None { 1 } else { count });
    let factors = |number: u64, count: usize, shape: (usize, usize)| {
        matrices(number, count, shape).into_iter().map(|matrix| rounded(precision, matrix)).collect()
    };
    let a = Stored::new(places[0], (m, k), factors(1, counts[0], (m, k)));
    let b = Stored::new(places[1], (k, n), factors(2, counts[1], (k, n)));
    let before = match beta {
        // Not to be read.
        0.0 => vec![Array2::from_elem((m, n), f32::NAN); count],
        _ => matrices(3, count, (m, n)).into_iter().map(|matrix| matrix.mapv(|it| U::nearest(it).number())).collect(),
    };
    let c = Stored::new(places[2], (m, n), before);
    let elements = |stored: &Stored| stored.elements.iter().map(|&number| T::nearest(number)).collect::<Vec<T>>();
    let [a_buffer, b_buffer] = [&a, &b].map(|stored| device.upload(&elements(stored)).unwrap());
    let output = |elements: &[f32]| elements.iter().map(|&number| U::nearest(number)).collect::<Vec<U>>();
    let mut c_buffer = device.upload(&output(&c.elements)).unwrap();

    let [a_list, b_list] = [(&a, &a_buffer), (&b, &b_buffer)].map(|(stored, buffer)| {
        let matrices: Vec<_> = (0..stored.matrices.len()).map(|index| stored.matrix(buffer, index)).collect();
        MatrixList::new(device, &matrices).unwrap()
    });
    let product = match (batch, shared) {
        (Batch::None, _) | (_, [true, true]) => gemm.product(a.matrix(&a_buffer, 0), b.matrix(&b_buffer, 0)),
        (Batch::Strided, [false, false]) => gemm.product(a.batch(&a_buffer), b.batch(&b_buffer)),
        (Batch::Strided, [true, false]) => gemm.product(a.matrix(&a_buffer, 0), b.batch(&b_buffer)),
        // Lists and strides may be mixed.
        (_, [false, true]) => gemm.product(a.batch(&a_buffer), b.matrix(&b_buffer, 0)),
        (Batch::Listed, [false, false]) => gemm.product(&a_list, &b_list),
        (Batch::Listed, [true, false]) => gemm.product(a.matrix(&a_buffer, 0), &b_list),
    };
    let mut product = product.alpha(alpha).beta(beta).precision(precision);
    if let Some(plan) = plan {
        product = product.with_plan(plan);
    }
    // A sum that nobody writes shows in the product. (compute-sanitizer's initcheck can't tell: it doesn't see what copies of boxes write to global
    // memory, and has to find the workspace written before.)
    let workspace = product.workspace_bytes().map_or(0, |bytes| bytes as usize / size_of::<f32>());
    let mut workspace = device.upload(&vec![f32::NAN; workspace]).unwrap();
    // Of a batch that only C is, nobody knows before.
    if batch == Batch::None || shared != [true, true] {
        product = product.workspace(&mut workspace);
    }
    let kernel = product.plan().ok().map(|plan| plan.kernel);
    let enqueued = match batch {
        Batch::None => product.enqueue_into(c.matrix_mut(&mut c_buffer)),
        Batch::Strided => product.enqueue_into(c.batch_mut(&mut c_buffer)),
        Batch::Listed => product.enqueue_into(&mut c.list_mut(device, &mut c_buffer)),
    };
    enqueued.unwrap_or_else(|error| panic!("{case:?}: {error}"));

    let numbers = |elements: Vec<T>| elements.into_iter().map(T::number).collect::<Vec<f32>>();
    for (buffer, stored) in [(&a_buffer, &a), (&b_buffer, &b)] {
        let left = buffer.download().unwrap_or_else(|error| panic!("{case:?}: {error}"));
        assert_bits(&numbers(left), &numbers(elements(stored)));
    }
    let elements = c_buffer.download().unwrap_or_else(|error| panic!("{case:?}: {error}"));
    let elements: Vec<f32> = elements.into_iter().map(U::number).collect();
    let before: Vec<f32> = output(&c.elements).into_iter().map(U::number).collect();
    assert_bits(&c.around(&elements), &c.around(&before));
    let order = plan.map_or(verify::order_of_random(precision, k.min(512)), |plan| plan.order(k));
    for index in 0..count {
        let [a, b] = [&a, &b].map(|stored| stored.matrices[if stored.matrices.len() == 1 { 0 } else { index }].view());
        let reference = verify::reference_in(order, a, b).scaled(alpha, beta, Some(c.matrices[index].view()));
        let reference = reference.rounded_to(U::TYPE);
        let verification = verify::compare(c.read(&elements, index).view(), &reference);
        let name = kernel.map_or("", |kernel| kernel.name);
        assert!(verification.passed(), "{name}, {case:?}, matrix {index}: {verification:?}");
    }
    kernel
}
