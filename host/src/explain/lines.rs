//! From instructions back to the kernel's source: which line each belongs to, what a line costs, and which functions to
//! show.

use std::{collections::BTreeMap, ops::RangeInclusive};

use ptx_simulator::{
    SourceLocation,
    observe::costs::{Counts, InstructionCosts},
};

/// A source file: its name as line directives have it, and its text.
pub type Source<'a> = (&'a str, &'a str);

/// The source line that an instruction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Index of the file in the list of sources.
    pub file: usize,
    /// Line, from 1.
    pub line: u32,
    /// Column where the instruction's own directive names this line; none where it was found from its neighbours.
    pub column: Option<u32>,
}

/// A line of source and what it costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// Its number, from 1.
    pub number: u32,
    /// Its text.
    pub text: String,
    /// How often a warp came to it; zero for lines without instructions.
    ///
    /// That is the largest count among its instructions. An unrolled loop has several copies of each: accesses and
    /// multiply-adds that stand at one place in the source count together.
    pub executions: u64,
    /// What its instructions cost, all together.
    pub counts: Counts,
}

/// Functions of one file that the kernel executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The file.
    pub file: String,
    /// Every function with all its lines, from its attributes to its closing brace.
    pub functions: Vec<Vec<SourceLine>>,
}

/// Finds the line of each instruction of a kernel, given in the order of the code with what their directives say.
///
/// Instructions of another crate (what the kernel calls is inlined) or of no line belong to the kernel's line before
/// them, the first ones to the line after. `None` for all if no directive names a file of `sources`.
pub fn attribute(locations: &[Option<SourceLocation>], sources: &[Source<'_>]) -> Vec<Option<Place>> {
    let own = |location: &Option<SourceLocation>| {
        let location = location.as_ref().filter(|location| location.line > 0)?;
        let file = sources.iter().position(|(name, _)| *name == location.file)?;
        Some(Place { file, line: location.line, column: Some(location.column) })
    };
    let mut places: Vec<Option<Place>> = locations.iter().map(own).collect();
    let neighbour = |place: Place| Place { column: None, ..place };
    let mut last = places.iter().flatten().next().copied().map(neighbour);
    for place in &mut places {
        match place {
            Some(place) => last = Some(neighbour(*place)),
            None => *place = last,
        }
    }
    places
}

/// What is collected for one line.
#[derive(Default)]
struct Tally {
    counts: Counts,
    most: u64,
    /// Executions of what stands at one place in the source: column and kind of operation.
    columns: BTreeMap<(u32, Kind), u64>,
}

/// The operations of which a place in the source has one, however often the compiler copies it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Fma,
    Mma,
    SharedLoad,
    SharedStore,
    GlobalLoad,
    GlobalStore,
    Copy,
    Atomic,
}

fn kind(counts: &Counts) -> Option<Kind> {
    let kinds = [
        (counts.warp_fma, Kind::Fma),
        (counts.warp_mma, Kind::Mma),
        (counts.shared_loads.requests, Kind::SharedLoad),
        (counts.shared_stores.requests, Kind::SharedStore),
        (counts.global_loads.requests, Kind::GlobalLoad),
        (counts.global_stores.requests, Kind::GlobalStore),
        (counts.shared_copies.requests, Kind::Copy),
        (counts.shared_atomics.requests + counts.global_atomics.requests, Kind::Atomic),
    ];
    kinds.into_iter().find_map(|(count, kind)| (count > 0).then_some(kind))
}

/// Adds up what each line costs and lists the functions that executed lines belong to. The file of the kernel's first
/// instruction, which stands for its header, comes first.
pub fn listings(instructions: &[InstructionCosts], places: &[Option<Place>], sources: &[Source<'_>]) -> Vec<Listing> {
    let mut tallies: BTreeMap<(usize, u32), Tally> = BTreeMap::new();
    for instruction in instructions {
        let Some(Some(place)) = places.get(instruction.instruction as usize) else { continue };
        let tally = tallies.entry((place.file, place.line)).or_default();
        let executions = instruction.counts.warp_instructions;
        tally.counts += instruction.counts;
        tally.most = tally.most.max(executions);
        if let (Some(column), Some(kind)) = (place.column, kind(&instruction.counts)) {
            *tally.columns.entry((column, kind)).or_default() += executions;
        }
    }

    let first = places.iter().flatten().next().map(|place| place.file);
    let mut files: Vec<usize> = tallies.keys().map(|(file, _)| *file).collect();
    files.dedup();
    files.sort_by_key(|file| (Some(*file) != first, *file));
    files
        .into_iter()
        .map(|file| {
            let (name, text) = sources[file];
            let functions = functions(text);
            let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
            for (_, line) in tallies.keys().filter(|(in_file, _)| *in_file == file) {
                if !ranges.iter().any(|range| range.contains(line)) {
                    let function = functions.iter().find(|function| function.contains(line));
                    ranges.push(function.cloned().unwrap_or(*line..=*line));
                }
            }
            let line = |(number, text): (u32, &str)| {
                let tally = tallies.get(&(file, number));
                SourceLine {
                    number,
                    text: text.to_owned(),
                    executions: tally
                        .map_or(0, |tally| tally.columns.values().fold(tally.most, |most, count| most.max(*count))),
                    counts: tally.map(|tally| tally.counts).unwrap_or_default(),
                }
            };
            let shown = |range: &RangeInclusive<u32>| {
                (1..).zip(text.lines()).filter(|(number, _)| range.contains(number)).map(line).collect()
            };
            Listing { file: name.to_owned(), functions: ranges.iter().map(shown).collect() }
        })
        .collect()
}

/// The lines of each outermost function, from its attributes to its closing brace.
fn functions(text: &str) -> Vec<RangeInclusive<u32>> {
    let code = without_comments_and_literals(text);
    let lines: Vec<&str> = code.lines().collect();
    let mut found: Vec<RangeInclusive<u32>> = Vec::new();
    let mut line = 1;
    let mut position = 0;
    while position < code.len() {
        let rest = &code[position..];
        let word = rest.find(|character: char| !is_word(character)).unwrap_or(rest.len());
        if word == 0 {
            let character = rest.chars().next().expect("the position is inside the text");
            line += u32::from(character == '\n');
            position += character.len_utf8();
        } else if &rest[..word] == "fn" && rest[word..].trim_start().starts_with(is_word) {
            let (length, has_body) = function_length(rest);
            let end = line + rest[..length].matches('\n').count() as u32;
            if has_body {
                let attributes = lines[..line as usize - 1].iter().rev();
                let attributes = attributes.take_while(|line| line.trim_start().starts_with("#[")).count() as u32;
                found.push(line - attributes..=end);
            }
            line = end;
            position += length;
        } else {
            position += word;
        }
    }
    found
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The bytes that a function at the start of `code` takes, and whether it has a body.
fn function_length(code: &str) -> (usize, bool) {
    let (mut braces, mut brackets) = (0, 0);
    for (index, character) in code.char_indices() {
        match character {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            '{' => braces += 1,
            '}' if braces == 1 && brackets == 0 => return (index + 1, true),
            '}' => braces -= 1,
            ';' if braces == 0 && brackets == 0 => return (index + 1, false),
            _ => {}
        }
    }
    (code.len(), true)
}

/// The text with spaces for comments, strings and characters, so that braces in them don't count. Lines stay.
fn without_comments_and_literals(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = skipped(rest).unwrap_or(0);
        if length == 0 {
            code.push(character);
            rest = &rest[character.len_utf8()..];
        } else {
            code.extend(rest[..length].chars().map(|character| if character == '\n' { '\n' } else { ' ' }));
            rest = &rest[length..];
        }
    }
    code
}

/// The bytes of the comment, string or character that `text` begins with.
fn skipped(text: &str) -> Option<usize> {
    let until = |from: usize, end: &str| text[from..].find(end).map_or(text.len(), |at| from + at + end.len());
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(until(2, "*/"));
    }
    if let Some(raw) = text.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            return Some(until(hashes + 2, &format!("\"{}", "#".repeat(hashes))));
        }
    }
    let mut characters = text.char_indices();
    match characters.next()?.1 {
        '"' => {
            let mut escaped = false;
            let end = characters.find(|(_, character)| {
                let ends = *character == '"' && !escaped;
                escaped = *character == '\\' && !escaped;
                ends
            });
            Some(end.map_or(text.len(), |(index, _)| index + 1))
        }
        // A character, not a lifetime: 'x' or an escape.
        '\'' => match (characters.next()?.1, characters.next()?) {
            ('\\', (from, _)) => Some(until(from + 1, "'")),
            (_, (index, '\'')) => Some(index + 1),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! fn in_a_comment() {
use core::ops;

/// Lesson: a brace { here.
#[inline(always)]
#[allow(unused)]
pub unsafe fn body<const TILE: usize>(a: [f32; 4]) -> char {
    let text = \"} // no end\"; // nor here }
    fn inner() {}
    '}'
}

trait Shape { fn sides(&self) -> [u8; 2]; fn name<'a>(&'a self) -> &'a str { r#\"}\"# } }
const LAST: u32 = 1;
";

    fn location(file: &str, line: u32, column: u32) -> Option<SourceLocation> {
        Some(SourceLocation { file: file.to_owned(), line, column })
    }

    fn costs(instruction: u32, counts: Counts) -> InstructionCosts {
        InstructionCosts { instruction, mnemonic: String::new(), ptx_line: instruction + 100, source: None, counts }
    }

    #[test]
    fn functions_reach_from_their_attributes_to_their_closing_brace() {
        assert_eq!(functions(SOURCE), [5..=11, 13..=13]);
        for (file, text) in gpu_kernels::SOURCES {
            for function in functions(text) {
                let last = text.lines().nth(*function.end() as usize - 1).unwrap();
                assert_eq!(last.trim(), "}", "{file}:{}", function.end());
            }
        }
    }

    #[test]
    fn instructions_of_other_crates_belong_to_the_kernels_line_before_them() {
        let locations = [None, location("k.rs", 7, 3), location("core/range.rs", 900, 1), location("k.rs", 0, 0), None];
        let places = attribute(&locations, &[("k.rs", SOURCE)]);
        let found = |column| Some(Place { file: 0, line: 7, column });
        assert_eq!(places, [found(None), found(Some(3)), found(None), found(None), found(None)]);
        assert_eq!(attribute(&locations, &[("other.rs", "")]), [None; 5]);
    }

    #[test]
    fn an_unrolled_line_was_come_to_as_often_as_all_copies_together() {
        let fma = Counts { warp_instructions: 10, warp_fma: 10, ..Counts::default() };
        let add = Counts { warp_instructions: 12, ..Counts::default() };
        let places =
            attribute(&[location("k.rs", 8, 5), location("k.rs", 8, 5), location("k.rs", 8, 5)], &[("k.rs", SOURCE)]);
        let listings = listings(&[costs(0, fma), costs(1, fma), costs(2, add)], &places, &[("k.rs", SOURCE)]);
        let lines = &listings[0].functions[0];
        assert_eq!((lines[0].number, lines.last().unwrap().number), (5, 11));
        let line = lines.iter().find(|line| line.number == 8).unwrap();
        assert_eq!((line.executions, line.counts.warp_instructions, line.counts.warp_fma), (20, 32, 20));
        assert!(lines.iter().filter(|line| line.number != 8).all(|line| line.executions == 0));
    }
}
