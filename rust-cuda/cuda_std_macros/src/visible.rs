//! `#[externally_visible]`: a function that stays in the PTX for other modules.
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Error, ItemFn, Meta, Result};

pub fn expand(item: TokenStream) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(item)?;
    if !function.attrs.iter().any(is_no_mangle) {
        return Err(Error::new_spanned(
            &function.sig.ident,
            "an externally visible function needs `#[no_mangle]` too: other modules link it by its name",
        ));
    }
    // `no_mangle` alone exports a function from a cdylib, which is what a PTX module is here.
    let function = function.into_token_stream();
    Ok(quote!(#function))
}

/// `#[no_mangle]` or, as edition 2024 wants it, `#[unsafe(no_mangle)]`.
fn is_no_mangle(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::Path(path) => path.is_ident("no_mangle"),
        Meta::List(list) => list.path.is_ident("unsafe") && list.tokens.to_string() == "no_mangle",
        Meta::NameValue(_) => false,
    }
}
