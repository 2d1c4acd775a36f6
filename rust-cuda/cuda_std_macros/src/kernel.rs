//! `#[kernel]`: checks a function's signature and gives it the form that the launch needs.
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, FnArg, GenericParam, ItemFn, LitInt, PatType, Result, ReturnType, Token, Type, TypeReference};

pub fn expand(hints: TokenStream, item: TokenStream) -> Result<TokenStream> {
    Punctuated::<Hint, Token![,]>::parse_terminated.parse2(hints)?;
    let function: ItemFn = syn::parse2(item)?;
    check_signature(&function)?;

    let copy_checks = copy_checks(&function);
    let (parameters, rebuilt) = launch_parameters(&function);
    let ItemFn { attrs, vis, sig, block } = &function;
    let (name, generics, statements) = (&sig.ident, &sig.generics, &block.stmts);

    Ok(quote! {
        #[cfg(target_arch = "nvptx64")]
        #(#attrs)*
        #[unsafe(no_mangle)]
        #vis unsafe extern "ptx-kernel" fn #name #generics (#(#parameters),*) {
            #copy_checks
            #(#rebuilt)*
            #(#statements)*
        }

        #[cfg(not(target_arch = "nvptx64"))]
        #[allow(dead_code, clippy::missing_safety_doc, clippy::too_many_arguments)]
        #(#attrs)*
        #vis #sig {
            #copy_checks
            #(#statements)*
        }
    })
}

/// Everything about the signature that can be judged without types. All faults are reported at once.
fn check_signature(function: &ItemFn) -> Result<()> {
    let signature = &function.sig;
    let mut faults = Vec::new();
    if signature.unsafety.is_none() {
        faults.push(Error::new_spanned(
            signature.fn_token,
            "a kernel must be an `unsafe fn`: nothing checks the launch that calls it",
        ));
    }
    if let ReturnType::Type(_, _) = &signature.output {
        faults.push(Error::new_spanned(
            &signature.output,
            "a kernel returns nothing: write results through a pointer parameter",
        ));
    }
    if let Some(asyncness) = &signature.asyncness {
        faults.push(Error::new_spanned(asyncness, "a kernel can't be async"));
    }
    if let Some(constness) = &signature.constness {
        faults.push(Error::new_spanned(constness, "a kernel can't be const"));
    }
    if let Some(abi) = &signature.abi {
        faults.push(Error::new_spanned(abi, "a kernel's ABI is set by `#[kernel]`: leave it out"));
    }
    if let Some(variadic) = &signature.variadic {
        faults.push(Error::new_spanned(variadic, "a kernel takes a fixed number of parameters"));
    }
    for parameter in &signature.generics.params {
        if !matches!(parameter, GenericParam::Lifetime(_)) {
            faults.push(Error::new_spanned(
                parameter,
                "a kernel can't be generic: each entry point has one name. Call a generic function from it instead",
            ));
        }
    }
    for input in &signature.inputs {
        match input {
            FnArg::Receiver(receiver) => {
                faults.push(Error::new_spanned(receiver, "a kernel must be a free function, without `self`"));
            }
            FnArg::Typed(PatType { ty, .. }) => {
                if let Type::ImplTrait(_) = **ty {
                    faults.push(Error::new_spanned(ty, "a kernel can't be generic: name the parameter's type"));
                }
            }
        }
    }
    match faults.into_iter().reduce(|mut all, fault| {
        all.combine(fault);
        all
    }) {
        Some(all) => Err(all),
        None => Ok(()),
    }
}

/// Statements that fail to compile, at the parameter's own place, where its type isn't `Copy`.
fn copy_checks(function: &ItemFn) -> TokenStream {
    let checks = typed_parameters(function).map(|parameter| {
        let ty = &parameter.ty;
        quote_spanned!(ty.span()=> kernel_parameters_must_be_copy::<#ty>();)
    });
    quote! {
        #[allow(clippy::extra_unused_type_parameters)]
        const fn kernel_parameters_must_be_copy<T: ::core::marker::Copy>() {}
        #(#checks)*
    }
}

/// The parameters as the launch passes them, and the statements that turn them back into what the author wrote.
fn launch_parameters(function: &ItemFn) -> (Vec<TokenStream>, Vec<TokenStream>) {
    let mut parameters = Vec::new();
    let mut rebuilt = Vec::new();
    for (position, parameter) in typed_parameters(function).enumerate() {
        let PatType { attrs, pat, ty, .. } = parameter;
        match slice_element(ty) {
            None => parameters.push(quote!(#(#attrs)* #pat: #ty)),
            Some(element) => {
                let pointer = format_ident!("slice_{position}_pointer");
                let length = format_ident!("slice_{position}_length");
                parameters.push(quote!(#pointer: *const #element));
                parameters.push(quote!(#length: usize));
                rebuilt.push(quote! {
                    // SAFETY: whoever launches the kernel passes the pointer and the length of one slice.
                    #(#attrs)* let #pat: #ty = unsafe { ::core::slice::from_raw_parts(#pointer, #length) };
                });
            }
        }
    }
    (parameters, rebuilt)
}

fn typed_parameters(function: &ItemFn) -> impl Iterator<Item = &PatType> {
    function.sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(parameter) => Some(parameter),
        FnArg::Receiver(_) => None,
    })
}

/// `T` of a type spelled `&[T]`.
fn slice_element(ty: &Type) -> Option<&Type> {
    match ty {
        Type::Paren(inner) => slice_element(&inner.elem),
        Type::Group(inner) => slice_element(&inner.elem),
        Type::Reference(TypeReference { mutability: None, elem, .. }) => match &**elem {
            Type::Slice(slice) => Some(&slice.elem),
            _ => None,
        },
        _ => None,
    }
}

/// `grid_dim = 2d` or `block_dim = 1d`.
struct Hint;

impl Parse for Hint {
    fn parse(input: ParseStream) -> Result<Self> {
        let name: Ident = input.parse()?;
        if name != "grid_dim" && name != "block_dim" {
            return Err(Error::new(name.span(), "unknown hint: `#[kernel]` takes `grid_dim` and `block_dim`"));
        }
        input.parse::<Token![=]>()?;
        // `2d` is an integer literal with the suffix `d` to a Rust lexer.
        let dimension: LitInt = input.parse().map_err(|_| wrong_dimension(input.span()))?;
        let digits_fit = matches!(dimension.base10_digits(), "1" | "2" | "3");
        let suffix_fits = matches!(dimension.suffix(), "d" | "D");
        if digits_fit && suffix_fits { Ok(Hint) } else { Err(wrong_dimension(dimension.span())) }
    }
}

fn wrong_dimension(span: Span) -> Error {
    Error::new(span, "expected a dimension: `1d`, `2d` or `3d`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(item: TokenStream) -> String {
        expand(TokenStream::new(), item).map_or_else(|error| error.to_string(), |tokens| tokens.to_string())
    }

    fn faults(item: TokenStream) -> Vec<String> {
        expand(TokenStream::new(), item)
            .map_or_else(|error| error.into_iter().map(|fault| fault.to_string()).collect(), |_| Vec::new())
    }

    #[test]
    fn a_kernel_is_a_ptx_entry_on_the_gpu_and_a_plain_function_elsewhere() {
        let text = expanded(quote!(
            pub unsafe fn add(a: *const f32, n: usize) {
                body(a, n)
            }
        ));
        assert!(text.contains(r#"pub unsafe extern "ptx-kernel" fn add (a : * const f32 , n : usize)"#), "{text}");
        assert!(text.contains("# [unsafe (no_mangle)]"), "{text}");
        assert!(text.contains("pub unsafe fn add (a : * const f32 , n : usize)"), "{text}");
    }

    #[test]
    fn a_slice_arrives_as_pointer_and_length_under_its_own_name() {
        let text = expanded(quote!(
            unsafe fn sum<'a>(first: u32, mut values: &'a [f32]) {}
        ));
        assert!(text.contains("(first : u32 , slice_1_pointer : * const f32 , slice_1_length : usize)"), "{text}");
        assert!(text.contains("let mut values : & 'a [f32] ="), "{text}");
    }

    #[test]
    fn every_fault_of_a_signature_is_reported_at_once() {
        let all = faults(quote!(
            fn wrong<T>(&self, x: T) -> u32 {
                0
            }
        ));
        let expected = ["unsafe fn", "returns nothing", "generic", "free function"];
        assert_eq!(all.len(), expected.len(), "{all:?}");
        for text in expected {
            assert!(all.iter().any(|fault| fault.contains(text)), "{text} is missing from {all:?}");
        }
    }

    #[test]
    fn hints_of_the_published_crate_are_taken_and_others_refused() {
        let item = quote!(
            unsafe fn f() {}
        );
        assert!(expand(quote!(grid_dim = 2d, block_dim = 1D), item.clone()).is_ok());
        assert!(expand(quote!(grid_dim = 4d), item.clone()).is_err());
        assert!(expand(quote!(warp_dim = 1d), item).is_err());
    }
}
