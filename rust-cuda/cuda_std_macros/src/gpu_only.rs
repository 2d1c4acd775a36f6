//! `#[gpu_only]`: the real function on the GPU, a stand-in that panics elsewhere.
use proc_macro2::TokenStream;
use quote::quote;
use syn::{ItemFn, Result, Signature};

pub fn expand(item: TokenStream) -> Result<TokenStream> {
    let ItemFn { attrs, vis, sig, block } = syn::parse2(item)?;
    let name = &sig.ident;
    // A stand-in is never called across a language border, and `const` or a foreign ABI could not hold a panic text.
    let stand_in = Signature { abi: None, ..sig.clone() };
    Ok(quote! {
        #[cfg(target_arch = "nvptx64")]
        #(#attrs)* #vis #sig #block

        #[cfg(not(target_arch = "nvptx64"))]
        #[allow(unused_variables, unused_mut, clippy::missing_safety_doc)]
        #(#attrs)* #vis #stand_in {
            ::core::panic!(::core::concat!("`", ::core::stringify!(#name), "` runs on a GPU only, and was called on the CPU"))
        }
    })
}
