//! LLVM's NVPTX intrinsics that `core::arch::nvptx` doesn't have.
//!
//! Whatever synchronises threads is an intrinsic rather than inline PTX: LLVM knows these to be convergent and will not
//! move them into or out of a branch, which nothing tells it about inline PTX.

unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.isspacep.global"]
    pub fn is_global(pointer: *const u8) -> bool;
    #[link_name = "llvm.nvvm.isspacep.shared"]
    pub fn is_shared(pointer: *const u8) -> bool;
    #[link_name = "llvm.nvvm.isspacep.const"]
    pub fn is_constant(pointer: *const u8) -> bool;
    #[link_name = "llvm.nvvm.isspacep.local"]
    pub fn is_local(pointer: *const u8) -> bool;

    #[link_name = "llvm.nvvm.barrier.cta.red.popc.aligned.all"]
    pub fn barrier_count(barrier: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.barrier.cta.red.and.aligned.all"]
    pub fn barrier_and(barrier: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.barrier.cta.red.or.aligned.all"]
    pub fn barrier_or(barrier: u32, predicate: bool) -> bool;

    #[link_name = "llvm.nvvm.membar.gl"]
    pub fn fence_device();
    #[link_name = "llvm.nvvm.membar.sys"]
    pub fn fence_system();

    #[link_name = "llvm.nvvm.bar.warp.sync"]
    pub fn warp_barrier(mask: u32);
    #[link_name = "llvm.nvvm.activemask"]
    pub fn active_mask() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
    pub fn lane() -> u32;

    #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
    pub fn shuffle_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    pub fn shuffle_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    pub fn shuffle_index(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    pub fn shuffle_xor(mask: u32, value: u32, lane_mask: u32, clamp: u32) -> u32;

    #[link_name = "llvm.nvvm.vote.all.sync"]
    pub fn vote_all(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    pub fn vote_any(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    pub fn vote_ballot(mask: u32, predicate: bool) -> u32;

    #[link_name = "llvm.nvvm.match.any.sync.i32"]
    pub fn match_any_32(mask: u32, value: u32) -> u32;
    #[link_name = "llvm.nvvm.match.any.sync.i64"]
    pub fn match_any_64(mask: u32, value: u64) -> u32;

    #[link_name = "llvm.nvvm.redux.sync.add"]
    pub fn reduce_add(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umin"]
    pub fn reduce_min_unsigned(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umax"]
    pub fn reduce_max_unsigned(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.min"]
    pub fn reduce_min_signed(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.max"]
    pub fn reduce_max_signed(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.and"]
    pub fn reduce_and(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.or"]
    pub fn reduce_or(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.xor"]
    pub fn reduce_xor(value: u32, mask: u32) -> u32;
}
