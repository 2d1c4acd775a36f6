//! Cuts one entry out of a PTX module: a module of its own with that entry and what it needs.
//!
//! A GPU's driver compiles all of a module when it is loaded, and the simulator decodes all of it, whichever entry is
//! then launched. The production kernels are many and large (their text has megabytes), and a program uses a few: so each is
//! loaded by itself when it is first used. It also keeps the driver's cache of compiled modules apart by kernel: one that
//! changed is compiled again, the others are not.
//!
//! The text is read the way `cuda_builder` writes it: what starts a line without a blank is at module level, and a body
//! begins with a line `{` and ends with a line `}`.

use std::ops::Range;

use memchr::memmem;

/// Something at module level that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    kind: Kind,
    name: Range<usize>,
    text: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Entry,
    /// A function, or its declaration.
    Function,
    Variable,
}

/// What a module's text holds, found in one pass that leaps over the bodies.
#[derive(Clone, Debug, Default)]
pub struct Index {
    items: Vec<Item>,
}

impl Index {
    /// Looks through a module.
    pub fn new(text: &str) -> Index {
        let mut items = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let line_end = end_of_line(text, at);
            let line = &text[at..line_end];
            let end = match item(line) {
                Some((kind, name)) => {
                    let end = match kind {
                        Kind::Variable => end_of_declaration(text, at),
                        Kind::Entry | Kind::Function => end_of_function(text, at),
                    };
                    items.push(Item { kind, name: at + name.start..at + name.end, text: at..end });
                    end
                }
                None => line_end,
            };
            at = end;
        }
        Index { items }
    }

    /// The names of all entries, in the module's order.
    pub fn entries<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a str> {
        self.items.iter().filter(|item| item.kind == Kind::Entry).map(|item| &text[item.name.clone()])
    }

    /// The module `text`, which this is the index of, with one entry only: everything that isn't named stays as it is, and of
    /// functions and variables those stay that the entry uses, or that one of them uses. `None` if there is no such
    /// entry.
    pub fn cut(&self, text: &str, entry: &str) -> Option<String> {
        let name = |item: &Item| &text[item.name.clone()];
        let wanted = self.items.iter().position(|item| item.kind == Kind::Entry && name(item) == entry)?;
        let mut kept = vec![false; self.items.len()];
        let mut unvisited = vec![wanted];
        while let Some(user) = unvisited.pop() {
            if std::mem::replace(&mut kept[user], true) {
                continue;
            }
            let body = &text[self.items[user].text.clone()];
            let used = |(_, item): &(usize, &Item)| item.kind != Kind::Entry && mentions(body, name(item));
            unvisited.extend(self.items.iter().enumerate().filter(used).map(|(index, _)| index));
        }

        let mut module = String::with_capacity(self.items[wanted].text.len() + 4096);
        let mut at = 0;
        for (item, kept) in self.items.iter().zip(&kept) {
            push_unnamed(&mut module, &text[at..item.text.start]);
            if *kept {
                module.push_str(&text[item.text.clone()]);
            }
            at = item.text.end;
        }
        push_unnamed(&mut module, &text[at..]);
        Some(module)
    }
}

/// Adds the lines between two items: directives such as `.version` and `.file`. LLVM names every entry in a comment; these
/// comments go, as blank lines do.
fn push_unnamed(module: &mut String, text: &str) {
    for line in text.split_inclusive('\n') {
        if !line.trim_start().starts_with("//") && !line.trim().is_empty() {
            module.push_str(line);
        }
    }
}

/// The kind and name of what a line at module level declares.
fn item(line: &str) -> Option<(Kind, Range<usize>)> {
    if !line.starts_with('.') {
        return None;
    }
    let mut kind = None;
    let mut rest = line;
    loop {
        rest = rest.trim_start();
        let word = rest.split(|character: char| character.is_whitespace() || character == '(').next()?;
        if !word.starts_with('.') {
            break;
        }
        match word {
            ".entry" => kind = Some(Kind::Entry),
            ".func" => kind = Some(Kind::Function),
            ".global" | ".const" | ".shared" | ".tex" => kind = Some(Kind::Variable),
            // Not followed by a name.
            ".version" | ".target" | ".address_size" | ".file" | ".section" | ".pragma" => return None,
            _ => {}
        }
        rest = &rest[word.len()..];
        if word == ".align" {
            rest = rest.trim_start().trim_start_matches(|character: char| character.is_ascii_digit());
        }
    }
    // What a function returns stands before its name.
    if rest.starts_with('(') {
        rest = rest.split_once(')')?.1.trim_start();
    }
    let start = line.len() - rest.len();
    let length = rest.find(|character: char| !is_name(character)).unwrap_or(rest.len());
    (length > 0).then(|| kind.map(|kind| (kind, start..start + length))).flatten()
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '$')
}

fn end_of_line(text: &str, at: usize) -> usize {
    memchr::memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |found| at + found + 1)
}

/// Where the declaration of a variable ends: behind the line with its semicolon.
fn end_of_declaration(text: &str, at: usize) -> usize {
    let semicolon = memchr::memchr(b';', &text.as_bytes()[at..]).map_or(text.len(), |found| at + found);
    end_of_line(text, semicolon)
}

/// Where a function ends: behind its body, or behind the semicolon of a declaration.
fn end_of_function(text: &str, at: usize) -> usize {
    let mut line_start = at;
    while line_start < text.len() {
        let line_end = end_of_line(text, line_start);
        match text[line_start..line_end].trim_end() {
            "{" => {
                let body = &text.as_bytes()[line_end - 1..];
                return memmem::find(body, b"\n}\n").map_or(text.len(), |found| line_end - 1 + found + 3);
            }
            line if line.ends_with(';') => return line_end,
            _ => line_start = line_end,
        }
    }
    text.len()
}

/// Whether a text has a name as a word of its own.
fn mentions(text: &str, name: &str) -> bool {
    let bytes = text.as_bytes();
    let inside_word = |at: Option<&u8>| at.is_some_and(|byte| is_name(*byte as char) || *byte == b'%');
    memmem::find_iter(bytes, name).any(|at| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        !inside_word(before) && !inside_word(bytes.get(at + name.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "\
//
// Generated
//

.version 7.0
.target sm_80
.address_size 64

\t// .globl\tfirst
.extern .shared .align 128 .b8 dynamic[];
.shared .align 16 .b8 tile[1024];
.shared .align 16 .b8 tile_2[1024];
.global .align 4 .u32 table[2] = {1,
 2};
.visible .global .align 8 .u64 pointer = table;
.extern .func  (.param .b32 func_retval0) vprintf
(
\t.param .b64 vprintf_param_0
)
;
.visible .entry first(
\t.param .u64 first_param_0
)
.maxntid 256, 1, 1
{
\t.loc\t1 5 3
\tmov.u64 %rd1, tile_2;
\t{ // callseq 0, 0
\tcall.uni helper, (a);
\t}
\tret;
}
\t// .globl\tsecond
.visible .entry second(
)
{
\tmov.u64 %tile, dynamic;
\tret;
}
.func  (.param .b32 func_retval0) helper(
\t.param .b32 a
)
{
\tld.global.u64 %rd1, [pointer];
\tret;
}
\t.file\t1 \"lib.rs\"
";

    fn cut(entry: &str) -> Option<String> {
        Index::new(MODULE).cut(MODULE, entry)
    }

    #[test]
    fn entries_are_listed_in_order() {
        assert_eq!(Index::new(MODULE).entries(MODULE).collect::<Vec<_>>(), ["first", "second"]);
    }

    #[test]
    fn an_entry_takes_along_what_it_uses_and_what_that_uses() {
        let module = cut("first").unwrap();
        let expected = "\
.version 7.0
.target sm_80
.address_size 64
.shared .align 16 .b8 tile_2[1024];
.global .align 4 .u32 table[2] = {1,
 2};
.visible .global .align 8 .u64 pointer = table;
.visible .entry first(
\t.param .u64 first_param_0
)
.maxntid 256, 1, 1
{
\t.loc\t1 5 3
\tmov.u64 %rd1, tile_2;
\t{ // callseq 0, 0
\tcall.uni helper, (a);
\t}
\tret;
}
.func  (.param .b32 func_retval0) helper(
\t.param .b32 a
)
{
\tld.global.u64 %rd1, [pointer];
\tret;
}
\t.file\t1 \"lib.rs\"
";
        assert_eq!(module, expected);
        assert_eq!(
            Index::new(&module).cut(&module, "first").as_deref(),
            Some(expected),
            "cutting again changes nothing"
        );
    }

    #[test]
    fn what_only_other_entries_use_is_left_out() {
        let module = cut("second").unwrap();
        for other in ["first", "helper", "tile", "table", "vprintf", "maxntid"] {
            let left = module.lines().filter(|line| mentions(line, other)).count();
            assert_eq!(left, 0, "{other} in {module}");
        }
        assert!(module.contains(".extern .shared .align 128 .b8 dynamic[];\n"));
        assert!(module.contains("\t.file\t1 \"lib.rs\"\n"));
    }

    #[test]
    fn an_entry_that_is_not_there_is_not_found_by_part_of_a_name() {
        assert_eq!(cut("fir"), None);
        assert_eq!(cut("helper"), None);
        assert_eq!(cut(""), None);
    }

    #[test]
    fn text_that_is_no_module_has_no_entries_and_stops_nobody() {
        for text in
            ["", "\n", ".visible", ".entry", ".visible .entry x(", ".func (.param", "é {", ".global .align 4 .b8 é[3]"]
        {
            assert_eq!(Index::new(text).cut(text, "y"), None, "{text:?}");
        }
    }
}
