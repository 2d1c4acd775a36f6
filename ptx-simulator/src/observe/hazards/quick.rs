//! A hash map for keys that nobody chooses to our harm: indices and page numbers.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// Mixes each number in by one multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quick(u64);

impl Quick {
    #[inline(always)]
    fn mix(&mut self, value: u64) {
        // An odd number with bits set all over; the high half of the product depends on all bits below.
        self.0 = (self.0.rotate_left(26) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Quick {
    #[inline(always)]
    fn finish(&self) -> u64 {
        // Maps take their buckets from the low bits, which depend on few of the key's.
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }

    #[inline(always)]
    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    #[inline(always)]
    fn write_u16(&mut self, value: u16) {
        self.mix(u64::from(value));
    }

    #[inline(always)]
    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    #[inline(always)]
    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    #[inline(always)]
    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    #[inline(always)]
    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }
}
