//! The expansion of `shared_array!`: a variable declared in PTX text under a name of its own, and its address.
use std::sync::atomic::{AtomicUsize, Ordering};

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Path, Result, Token, Type};

struct Shared {
    cuda_std: Path,
    element: Type,
    length: Expr,
}

impl Parse for Shared {
    fn parse(input: ParseStream) -> Result<Self> {
        let cuda_std = input.parse()?;
        input.parse::<Token![,]>()?;
        let element = input.parse()?;
        input.parse::<Token![,]>()?;
        Ok(Shared { cuda_std, element, length: input.parse()? })
    }
}

pub fn expand(input: TokenStream) -> Result<TokenStream> {
    let Shared { cuda_std, element, length } = syn::parse2(input)?;
    let name = unique_name();
    let declaration = format!(".shared .align {{alignment}} .b8 {name}[{{bytes}}];");
    let address = format!("mov.u64 {{0}}, {name}; cvta.shared.u64 {{0}}, {{0}};");
    Ok(quote! {{
        // `global_asm!` is an item, and a macro in a function can only place it inside another item. Nothing else may
        // be in there that could hide a name of the surrounding module.
        #[cfg(target_arch = "nvptx64")]
        #[allow(unused_imports, clippy::wildcard_imports)]
        mod shared_variable {
            use super::*;
            ::core::arch::global_asm!(
                #declaration,
                alignment = const #cuda_std::macro_support::shared_alignment::<#element>(),
                bytes = const ::core::mem::size_of::<#element>() * (#length),
            );
        }

        #[#cuda_std::gpu_only]
        #[inline(always)]
        fn shared_array() -> *mut #element {
            let pointer: *mut #element;
            // SAFETY: computes the address of the variable declared above.
            unsafe {
                ::core::arch::asm!(#address, out(reg64) pointer, options(pure, nomem, nostack));
            }
            // SAFETY: the declaration above says so.
            unsafe { #cuda_std::macro_support::shared_array(pointer) }
        }

        // On the CPU nothing declares the array, so its length is only type-checked.
        #[cfg(not(target_arch = "nvptx64"))]
        const _: usize = #length;
        shared_array()
    }})
}

/// A PTX name that no other array of this crate or of the crates it is linked with has.
fn unique_name() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let package = std::env::var("CARGO_CRATE_NAME").unwrap_or_default();
    format!("shared_array_{package}_{count}")
}
