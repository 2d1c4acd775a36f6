//! As much of PTX's grammar as tidying and checking need: words, declarations, and the bodies of functions.

/// The words of a line: names, numbers and directives, without punctuation.
pub fn words(line: &str) -> impl DoubleEndedIterator<Item = &str> {
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

/// A variable in global or constant memory, at module level.
pub struct Variable<'a> {
    pub name: &'a str,
    /// What stands before `=`.
    declaration: &'a str,
    /// What stands behind it.
    initial: &'a str,
}

/// The variable in global or constant memory that a line declares.
pub fn variable(line: &str) -> Option<Variable<'_>> {
    if line.starts_with("//") || line.starts_with(char::is_whitespace) {
        return None;
    }
    let (declaration, initial) = line.split_once('=').unwrap_or((line, ""));
    let before_length = declaration.split('[').next()?;
    let is_variable = before_length.split_whitespace().any(|word| matches!(word, ".global" | ".const"));
    let name = words(before_length).next_back().filter(|_| is_variable)?;
    Some(Variable { name, declaration, initial })
}

impl Variable<'_> {
    /// The values of a variable of `N` `u32`, which LLVM writes as words or as bytes, its last zeros left out. `None` if it
    /// has another size.
    pub fn words<const N: usize>(&self) -> Option<[u32; N]> {
        let elements = match self.declaration.split_once('[') {
            Some((_, length)) => length.split_once(']')?.0.parse().ok()?,
            None => 1,
        };
        let element_bytes = if words(self.declaration).any(|word| word == ".b8" || word == ".u8") { 1 } else { 4 };
        if elements * element_bytes != 4 * N {
            return None;
        }
        let mut numbers = words(self.initial).map(str::parse::<u32>).collect::<Result<Vec<_>, _>>().ok()?;
        if numbers.len() > elements {
            return None;
        }
        numbers.resize(elements, 0);
        let mut values = [0; N];
        for (value, bytes) in values.iter_mut().zip(numbers.chunks(4 / element_bytes)) {
            for (place, &byte) in bytes.iter().enumerate() {
                *value |= byte << (8 * place);
            }
        }
        Some(values)
    }
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
    fn variables_are_read_as_words_and_as_bytes() {
        let read = |line| variable(line).and_then(|variable| variable.words::<2>().map(|words| (variable.name, words)));
        assert_eq!(read(".visible .global .align 4 .u32 pair[2] = {70, 80};"), Some(("pair", [70, 80])));
        assert_eq!(read(".const .align 4 .b8 pair[8] = {70, 1, 0, 0, 80};"), Some(("pair", [326, 80])));
        assert_eq!(read(".global .align 4 .b8 pair[8];"), Some(("pair", [0, 0])));
        assert_eq!(read(".global .align 4 .u32 one = 1;"), None);
        assert_eq!(read(".shared .align 4 .u32 pair[2];"), None);
        assert_eq!(variable(".visible .global .align 4 .u32 one = 1;").unwrap().words(), Some([1]));
        assert_eq!(variable(".global .align 4 .u32 one;").unwrap().words(), Some([0]));
    }

    #[test]
    fn shared_variables_are_found_by_their_declarations() {
        assert_eq!(shared_variable(".shared .align 16 .b8 tile[1024];"), Some("tile"));
        assert_eq!(shared_variable(".extern .shared .align 128 .b8 dynamic[];"), Some("dynamic"));
        assert_eq!(shared_variable(".global .align 4 .b8 table[8];"), None);
    }
}
