//! Attribute macros of [`cuda_std`](https://docs.rs/cuda_std) for rustc's own NVPTX back end.
//!
//! Each macro keeps two worlds apart: on `nvptx64` it emits what that back end needs, on every other target it emits
//! something that type-checks, so that a kernel crate is an ordinary library for the program that launches it.
mod gpu_only;
mod kernel;
mod shared;
mod visible;

use proc_macro::TokenStream;

/// Makes a function an entry point that a host can launch.
///
/// The function must be `unsafe`, free (no `self`), not generic over types or constants, and return nothing. Every
/// parameter must be [`Copy`].
/// On the GPU it becomes `extern "ptx-kernel"` under its own, unmangled name. A parameter written as a slice
/// reference `&[T]` takes two launch arguments: a pointer, then the number of elements as `usize`. The type has to be
/// spelled as a slice reference for that; an alias hides it.
///
/// The optional hints `grid_dim = 1d` and `block_dim = 2d` (`1d`, `2d`, `3d`) are checked and otherwise unused: they
/// are promises of the published crate that this back end has no use for.
///
/// On other targets it stays a plain `unsafe fn`.
#[proc_macro_attribute]
pub fn kernel(hints: TokenStream, item: TokenStream) -> TokenStream {
    kernel::expand(hints.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Compiles a function's body for the GPU alone; elsewhere the function exists, and panics if it is called.
#[proc_macro_attribute]
pub fn gpu_only(_attribute: TokenStream, item: TokenStream) -> TokenStream {
    gpu_only::expand(item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Keeps a `#[no_mangle]` function in the PTX although no kernel calls it, for other modules to link with.
#[proc_macro_attribute]
pub fn externally_visible(_attribute: TokenStream, item: TokenStream) -> TokenStream {
    visible::expand(item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// What `shared_array!` expands to: the path of `cuda_std`, the element type, the number of elements.
#[doc(hidden)]
#[proc_macro]
pub fn shared_variable(input: TokenStream) -> TokenStream {
    shared::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
