//! As much of PTX's grammar as tidying and checking need: words, declarations, and the bodies of functions.

/// The words of a line: names, numbers and directives, without punctuation.
pub fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')))
        .filter(|word| !word.is_empty())
}

/// The variable that a line declares in shared memory, at module level.
pub fn shared_variable(line: &str) -> Option<&str> {
    let declaration = line.strip_prefix(".extern ").unwrap_or(line);
    if !declaration.starts_with(".shared ") {
        return None;
    }
    let name = declaration.split('[').next()?.split_whitespace().next_back()?;
    Some(name.trim_end_matches(';'))
}

/// A function of a module: its line of declaration and the lines of its body.
pub struct Function<'a> {
    pub name: &'a str,
    pub is_entry: bool,
    pub body: Vec<&'a str>,
}

/// Every function with a body, entries among them.
pub fn functions(text: &str) -> Vec<Function<'_>> {
    let mut functions: Vec<Function> = Vec::new();
    let mut head: Option<(&str, bool)> = None;
    let mut inside = false;
    for line in text.lines() {
        if inside {
            if line == "}" {
                inside = false;
            } else if let Some(function) = functions.last_mut() {
                function.body.push(line);
            }
        } else if line == "{" {
            if let Some((name, is_entry)) = head.take() {
                functions.push(Function { name, is_entry, body: Vec::new() });
                inside = true;
            }
        } else if let Some(found) = function_head(line) {
            head = Some(found);
        }
    }
    functions
}

/// Name of a function, and whether it is an entry, if this line starts one. What it returns may stand before its name.
pub fn function_head(line: &str) -> Option<(&str, bool)> {
    let (rest, is_entry) = if let Some((_, rest)) = line.split_once(".entry ") {
        (rest, true)
    } else if let Some((_, rest)) = line.split_once(".func ") {
        (rest, false)
    } else {
        return None;
    };
    if line.starts_with("//") || line.starts_with(char::is_whitespace) {
        return None;
    }
    let rest = match rest.trim_start().strip_prefix('(') {
        Some(returned) => returned.split_once(')')?.1,
        None => rest,
    };
    words(rest).next().map(|name| (name, is_entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_their_bodies() {
        let text = ".visible .entry add(\n\t.param .u64 add_param_0\n)\n{\n\tret;\n}\n.func  (.param .b32 r) helper(\n)\n{\n\t{ // callseq\n\t}\n}\n";
        let functions = functions(text);
        let heads: Vec<_> = functions.iter().map(|function| (function.name, function.is_entry)).collect();
        assert_eq!(heads, [("add", true), ("helper", false)]);
        assert_eq!(functions[0].body, ["\tret;"]);
        assert_eq!(functions[1].body.len(), 2);
    }

    #[test]
    fn shared_variables_are_found_by_their_declarations() {
        assert_eq!(shared_variable(".shared .align 16 .b8 tile[1024];"), Some("tile"));
        assert_eq!(shared_variable(".extern .shared .align 128 .b8 dynamic[];"), Some("dynamic"));
        assert_eq!(shared_variable(".global .align 4 .b8 table[8];"), None);
    }
}
