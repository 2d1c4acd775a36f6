//! Aligns parameters that are tensor maps.
//!
//! A tensor map is 128 bytes that must lie at a multiple of 64, and a kernel takes it by value. rustc can't align a
//! parameter to more than 16 bytes, and it's the only thing of that size that our kernels take: so what it declares with
//! 128 bytes and an alignment of 16 gets the alignment that the hardware wants. The kernel asks for the address of the
//! parameter by its name, so that nothing else changes.

/// The same module with tensor maps aligned to 64 bytes.
pub fn align_tensor_maps(text: &str) -> String {
    text.lines().flat_map(|line| [aligned(line).as_deref().unwrap_or(line).to_owned(), "\n".to_owned()]).collect()
}

/// The line with its parameter aligned to 64 bytes, if it declares a tensor map.
fn aligned(line: &str) -> Option<String> {
    let indentation = &line[..line.len() - line.trim_start().len()];
    let declaration = line.trim_start().strip_prefix(".param .align 16 .b8 ")?;
    let name = declaration.trim_end().trim_end_matches(',').strip_suffix("[128]")?;
    // Calls inside a function declare such variables too, and end the line with a semicolon.
    name.chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$'))
        .then(|| format!("{indentation}.param .align 64 .b8 {declaration}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_128_bytes_are_aligned_to_64_and_all_else_stays() {
        let text = "\
.visible .entry multiply(
\t.param .align 16 .b8 multiply_param_0[128],
\t.param .align 16 .b8 multiply_param_1[1280],
\t.param .align 8 .b8 multiply_param_2[128],
\t.param .u64 multiply_param_3,
\t.param .align 16 .b8 multiply_param_4[128]
)
{
\t.param .align 16 .b8 param0[128];
\tmov.b64 %rd1, multiply_param_0;
}
";
        let expected = text
            .replace("16 .b8 multiply_param_0", "64 .b8 multiply_param_0")
            .replace("16 .b8 multiply_param_4", "64 .b8 multiply_param_4");
        assert_eq!(align_tensor_maps(text), expected);
        assert_eq!(align_tensor_maps(&expected), expected);
    }
}
