//! Four `f32` at a time, at addresses that are plain numbers to the compiler.
//!
//! Accesses through these stay where they stand and stay whole: the compiler can't take a 16-byte load apart, as it may
//! with one through a pointer (at the end of a loop, for instance), or move it across another one of these. In shared
//! memory addresses have 32 bits, as the GPU has them: half the registers, and half the instructions.

/// The address of the shared memory whose size the launch sets, the same as
/// [`dynamic_shared_mem`](https://docs.rs/cuda_std/0.2.2/cuda_std/shared/fn.dynamic_shared_mem.html) gives as a
/// pointer. A multiple of 128.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub fn dynamic_shared_memory() -> u32 {
    #[allow(unused_mut)]
    let mut address = 0;
    // SAFETY: computes the address of a variable that cuda_std declares in every module.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!(
            "mov.u32 {}, cuda_std_dynamic_shared_memory;",
            out(reg32) address,
            options(pure, nomem, nostack)
        )
    };
    address
}

/// The address of a shared array, such as `shared_array!` of cuda_std reserves.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub fn shared_address<T>(array: *const T) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let address: u64;
        // SAFETY: it computes a number from a number.
        unsafe {
            core::arch::asm!("cvta.to.shared.u64 {}, {};", out(reg64) address, in(reg64) array,
                options(pure, nomem, nostack))
        };
        address as u32
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        array.addr() as u32
    }
}

/// The same pointer, of which the compiler no longer knows how it came about: a loop that moves it on keeps it in
/// registers as it is. Of a pointer that it knows to be a sum, the compiler may keep the parts, and add them in every
/// turn.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub fn kept<T>(pointer: *const T) -> *const T {
    #[allow(unused_mut)]
    let mut same = pointer;
    // SAFETY: it copies a pointer.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!("mov.b64 {}, {};", out(reg64) same, in(reg64) pointer, options(pure, nomem, nostack))
    };
    same
}

/// Loads 16 bytes of shared memory.
///
/// # Safety
///
/// `address` must be a multiple of 16 and lie, with all 16 bytes, in this block's shared memory.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn load_shared(address: u32) -> [f32; 4] {
    #[allow(unused_mut)]
    let [mut x, mut y, mut z, mut w] = [0.0f32; 4];
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "ld.shared.v4.f32 {{ {}, {}, {}, {} }}, [{}];",
        out(reg32) x, out(reg32) y, out(reg32) z, out(reg32) w, in(reg32) address, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = address;
    [x, y, z, w]
}

/// Loads 4 bytes of shared memory.
///
/// # Safety
///
/// `address` must be a multiple of 4 and lie, with all 4 bytes, in this block's shared memory.
#[inline(always)]
pub unsafe fn load_shared_word(address: u32) -> f32 {
    #[allow(unused_mut)]
    let mut x = 0.0f32;
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("ld.shared.f32 {}, [{}];", out(reg32) x, in(reg32) address, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = address;
    x
}

/// Loads 8 bytes of shared memory.
///
/// # Safety
///
/// `address` must be a multiple of 8 and lie, with all 8 bytes, in this block's shared memory.
#[inline(always)]
pub unsafe fn load_shared_pair(address: u32) -> [f32; 2] {
    #[allow(unused_mut)]
    let [mut x, mut y] = [0.0f32; 2];
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("ld.shared.v2.f32 {{ {}, {} }}, [{}];", out(reg32) x, out(reg32) y, in(reg32) address, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = address;
    [x, y]
}

/// Stores 16 bytes to shared memory.
///
/// # Safety
///
/// As for [`load_shared`].
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn store_shared(address: u32, [x, y, z, w]: [f32; 4]) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "st.shared.v4.f32 [{}], {{ {}, {}, {}, {} }};",
        in(reg32) address, in(reg32) x, in(reg32) y, in(reg32) z, in(reg32) w, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (address, x, y, z, w);
}

/// Stores 8 bytes to shared memory.
///
/// # Safety
///
/// As for [`load_shared_pair`].
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn store_shared_pair(address: u32, [x, y]: [f32; 2]) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("st.shared.v2.f32 [{}], {{ {}, {} }};", in(reg32) address, in(reg32) x, in(reg32) y, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (address, x, y);
}

/// Stores 4 bytes to shared memory.
///
/// # Safety
///
/// As for [`load_shared_word`].
#[inline(always)]
pub unsafe fn store_shared_word(address: u32, x: f32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("st.shared.f32 [{}], {};", in(reg32) address, in(reg32) x, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (address, x);
}

/// Loads 16 bytes of global memory.
///
/// # Safety
///
/// `address` must be a multiple of 16 and point to 16 readable bytes.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn load_global(address: u64) -> [f32; 4] {
    #[allow(unused_mut)]
    let [mut x, mut y, mut z, mut w] = [0.0f32; 4];
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "ld.global.v4.f32 {{ {}, {}, {}, {} }}, [{}];",
        out(reg32) x, out(reg32) y, out(reg32) z, out(reg32) w, in(reg64) address, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = address;
    [x, y, z, w]
}

/// Stores 16 bytes to global memory.
///
/// # Safety
///
/// `address` must be a multiple of 16 and point to 16 writable bytes.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn store_global(address: u64, [x, y, z, w]: [f32; 4]) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "st.global.v4.f32 [{}], {{ {}, {}, {}, {} }};",
        in(reg64) address, in(reg32) x, in(reg32) y, in(reg32) z, in(reg32) w, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (address, x, y, z, w);
}

/// Loads 8 bytes of global memory.
///
/// # Safety
///
/// `address` must be a multiple of 8 and point to 8 readable bytes.
#[inline(always)]
pub unsafe fn load_global_pair(address: u64) -> [f32; 2] {
    #[allow(unused_mut)]
    let [mut x, mut y] = [0.0f32; 2];
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("ld.global.v2.f32 {{ {}, {} }}, [{}];", out(reg32) x, out(reg32) y, in(reg64) address, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = address;
    [x, y]
}

/// Loads 4 bytes of global memory.
///
/// # Safety
///
/// `address` must be a multiple of 4 and point to 4 readable bytes.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn load_global_word(address: u64) -> f32 {
    #[allow(unused_mut)]
    let mut x = 0.0f32;
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("ld.global.f32 {}, [{}];", out(reg32) x, in(reg64) address, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = address;
    x
}

/// Loads 2 bytes of global memory.
///
/// # Safety
///
/// `address` must be a multiple of 2 and point to 2 readable bytes.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn load_global_half(address: u64) -> u16 {
    #[allow(unused_mut)]
    let mut x = 0;
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("ld.global.u16 {}, [{}];", out(reg16) x, in(reg64) address, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = address;
    x
}

/// Stores 2 bytes to global memory.
///
/// # Safety
///
/// `address` must be a multiple of 2 in global memory, with 2 writable bytes.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn store_global_half(address: u64, x: u16) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("st.global.u16 [{}], {};", in(reg64) address, in(reg16) x, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (address, x);
}

/// Stores 8 bytes to global memory.
///
/// # Safety
///
/// `address` must be a multiple of 8 and point to 8 writable bytes.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn store_global_pair(address: u64, [x, y]: [f32; 2]) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("st.global.v2.f32 [{}], {{ {}, {} }};", in(reg64) address, in(reg32) x, in(reg32) y, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (address, x, y);
}

/// Stores 4 bytes to global memory.
///
/// # Safety
///
/// `address` must be a multiple of 4 and point to 4 writable bytes.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn store_global_word(address: u64, x: f32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("st.global.f32 [{}], {};", in(reg64) address, in(reg32) x, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (address, x);
}

/// Loads an address from global memory.
///
/// # Safety
///
/// `address` must be a multiple of 8 and point to 8 readable bytes.
#[inline(always)]
pub unsafe fn load_global_address(address: u64) -> u64 {
    #[allow(unused_mut)]
    let mut x = 0;
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("ld.global.u64 {}, [{}];", out(reg64) x, in(reg64) address, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = address;
    x
}
