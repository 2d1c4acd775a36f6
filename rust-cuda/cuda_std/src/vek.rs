//! The two vectors that [`thread`](crate::thread) answers with, under the name of the crate whose types the published
//! `cuda_std` uses: same names and fields, nothing of its mathematics beyond what an index needs.

/// Something along x and y.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Vec2<T> {
    pub x: T,
    pub y: T,
}

/// Something along x, y and z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Vec3<T> {
    pub x: T,
    pub y: T,
    pub z: T,
}

impl<T> Vec2<T> {
    /// The vector (x, y).
    #[inline(always)]
    pub const fn new(x: T, y: T) -> Self {
        Vec2 { x, y }
    }
}

impl<T> Vec3<T> {
    /// The vector (x, y, z).
    #[inline(always)]
    pub const fn new(x: T, y: T, z: T) -> Self {
        Vec3 { x, y, z }
    }
}

impl Vec2<u32> {
    /// The vector (0, 0).
    #[inline(always)]
    pub const fn zero() -> Self {
        Vec2::new(0, 0)
    }

    /// x y.
    #[inline(always)]
    pub const fn product(self) -> u32 {
        self.x * self.y
    }
}

impl Vec3<u32> {
    /// The vector (0, 0, 0).
    #[inline(always)]
    pub const fn zero() -> Self {
        Vec3::new(0, 0, 0)
    }

    /// x y z.
    #[inline(always)]
    pub const fn product(self) -> u32 {
        self.x * self.y * self.z
    }
}
