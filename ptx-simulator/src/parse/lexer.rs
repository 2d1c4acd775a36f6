//! Splits PTX text into tokens. Comments and white space end here; every token keeps its line for error messages.

use super::ParseError;

/// One token of PTX text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TokenKind<'a> {
    /// An identifier: `add`, `%r1`, `$L__BB0_1`, `_ZN3foo`.
    Name(&'a str),
    /// A word that starts with a dot, without the dot: `global`, `f32`, `L1::evict_last`.
    Dot(&'a str),
    /// An integer literal.
    Integer(u64),
    /// The bits of a `0f…` literal.
    Float32(u32),
    /// The bits of a `0d…` literal, or of a decimal floating-point literal.
    Float64(u64),
    /// A string literal without its quotes.
    Text(&'a str),
    /// A single punctuation character.
    Punctuation(char),
    /// The end of the text.
    End,
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    pub kind: TokenKind<'a>,
    /// Line in the PTX text, from 1.
    pub line: u32,
    /// Byte offset of its first character.
    pub start: usize,
    /// Byte offset just past its last character.
    pub end: usize,
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%')
}

fn is_name_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%')
}

/// Splits `text` into tokens; the last one is always [`TokenKind::End`].
pub fn tokenize(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    Lexer { text, bytes: text.as_bytes(), position: 0, line: 1 }.run()
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    position: usize,
    line: u32,
}

impl<'a> Lexer<'a> {
    fn run(mut self) -> Result<Vec<Token<'a>>, ParseError> {
        let mut tokens = Vec::with_capacity(self.bytes.len() / 4);
        loop {
            self.skip_blank()?;
            let start = self.position;
            let line = self.line;
            let Some(&byte) = self.bytes.get(start) else {
                tokens.push(Token { kind: TokenKind::End, line, start, end: start });
                return Ok(tokens);
            };
            let kind = if is_name_start(byte) {
                self.take_while(is_name_part);
                TokenKind::Name(&self.text[start..self.position])
            } else if byte == b'.' && self.begins_dot_word() {
                self.position += 1;
                self.take_dot_word();
                TokenKind::Dot(&self.text[start + 1..self.position])
            } else if byte.is_ascii_digit() {
                self.number()?
            } else if byte == b'"' {
                self.string()?
            } else if byte.is_ascii() {
                self.position += 1;
                TokenKind::Punctuation(byte as char)
            } else {
                return Err(self.error("a character that PTX doesn't know"));
            };
            tokens.push(Token { kind, line, start, end: self.position });
        }
    }

    /// Whether what follows a dot is a modifier: a name, or a number of dimensions (`.2d`).
    fn begins_dot_word(&self) -> bool {
        let digit = self.peek(1).is_some_and(|next| next.is_ascii_digit());
        let dimensions = digit && self.peek(2) == Some(b'd') && !self.peek(3).is_some_and(is_name_part);
        dimensions || self.peek(1).is_some_and(|next| next.is_ascii_alphabetic() || next == b'_')
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.position + ahead).copied()
    }

    fn take_while(&mut self, accept: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&accept) {
            self.position += 1;
        }
    }

    /// A dot word may hold `::` (`.shared::cta`), but a single colon ends it (a label).
    fn take_dot_word(&mut self) {
        loop {
            self.take_while(is_name_part);
            if self.peek(0) == Some(b':') && self.peek(1) == Some(b':') && self.peek(2).is_some_and(is_name_part) {
                self.position += 2;
            } else {
                return;
            }
        }
    }

    fn skip_blank(&mut self) -> Result<(), ParseError> {
        loop {
            match self.peek(0) {
                Some(b'\n') => {
                    self.line += 1;
                    self.position += 1;
                }
                Some(byte) if byte.is_ascii_whitespace() || byte == 0 => self.position += 1,
                Some(b'/') if self.peek(1) == Some(b'/') => self.take_while(|byte| byte != b'\n'),
                Some(b'/') if self.peek(1) == Some(b'*') => {
                    let rest = &self.bytes[self.position + 2..];
                    let Some(length) = rest.windows(2).position(|pair| pair == b"*/") else {
                        return Err(self.error("a comment that doesn't end"));
                    };
                    self.line += rest[..length].iter().filter(|byte| **byte == b'\n').count() as u32;
                    self.position += length + 4;
                }
                _ => return Ok(()),
            }
        }
    }

    fn string(&mut self) -> Result<TokenKind<'a>, ParseError> {
        let start = self.position + 1;
        self.position = start;
        loop {
            match self.peek(0) {
                None | Some(b'\n') => return Err(self.error("a string that doesn't end")),
                Some(b'\\') => self.position += 2,
                Some(b'"') => break,
                Some(_) => self.position += 1,
            }
        }
        let end = self.position;
        self.position += 1;
        Ok(TokenKind::Text(&self.text[start..end]))
    }

    fn number(&mut self) -> Result<TokenKind<'a>, ParseError> {
        let start = self.position;
        self.take_while(|byte| byte.is_ascii_alphanumeric());
        let word = &self.text[start..self.position];
        let prefix = word.get(..2).unwrap_or("");
        match prefix {
            "0f" | "0F" if word.len() == 10 => {
                return u32::from_str_radix(&word[2..], 16)
                    .map(TokenKind::Float32)
                    .map_err(|_| self.error("a 0f literal needs eight hexadecimal digits"));
            }
            "0d" | "0D" if word.len() == 18 => {
                return u64::from_str_radix(&word[2..], 16)
                    .map(TokenKind::Float64)
                    .map_err(|_| self.error("a 0d literal needs sixteen hexadecimal digits"));
            }
            "0f" | "0F" | "0d" | "0D" => return Err(self.error("a floating-point literal of the wrong length")),
            _ => {}
        }
        let exponent = word.contains(['e', 'E']) && !prefix.eq_ignore_ascii_case("0x");
        let fraction = self.peek(0) == Some(b'.') && self.peek(1).is_some_and(|byte| byte.is_ascii_digit());
        let fraction_end = self.peek(0) == Some(b'.') && !self.peek(1).is_some_and(is_name_start);
        if word.bytes().all(|byte| byte.is_ascii_digit()) && (fraction || fraction_end) || exponent {
            self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
            if self.bytes[self.position - 1].eq_ignore_ascii_case(&b'e') && matches!(self.peek(0), Some(b'+' | b'-')) {
                self.position += 1;
                self.take_while(|byte| byte.is_ascii_digit());
            }
            return self.text[start..self.position]
                .parse::<f64>()
                .map(|value| TokenKind::Float64(value.to_bits()))
                .map_err(|_| self.error("a number that can't be read"));
        }
        let digits = word.trim_end_matches(['U', 'u']);
        let value = match prefix {
            "0x" | "0X" => u64::from_str_radix(&digits[2..], 16),
            "0b" | "0B" => u64::from_str_radix(&digits[2..], 2),
            _ if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(&digits[1..], 8),
            _ => digits.parse(),
        };
        value.map(TokenKind::Integer).map_err(|_| self.error("a number that can't be read or has more than 64 bits"))
    }

    fn error(&self, message: &str) -> ParseError {
        ParseError {
            line: self.line,
            text: self.text.lines().nth(self.line as usize - 1).unwrap_or("").trim().to_owned(),
            message: message.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind<'_>> {
        tokenize(text).unwrap().into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn numbers_of_every_base_are_read() {
        use TokenKind::*;
        assert_eq!(
            kinds("42 0x1FU 017 0b101 0f3F800000 0d3FF0000000000000 1.5 2e3"),
            [
                Integer(42),
                Integer(31),
                Integer(15),
                Integer(5),
                Float32(0x3f80_0000),
                Float64(1f64.to_bits()),
                Float64(1.5f64.to_bits()),
                Float64(2e3f64.to_bits()),
                End
            ]
        );
    }

    #[test]
    fn lines_are_counted_through_comments() {
        let tokens = tokenize("// one\n/* two\nthree */ add").unwrap();
        assert_eq!((tokens[0].kind, tokens[0].line), (TokenKind::Name("add"), 3));
    }

    #[test]
    fn dot_words_keep_their_double_colons() {
        use TokenKind::*;
        assert_eq!(
            kinds("ld.shared::cta.L1::evict_last $L1:"),
            [Name("ld"), Dot("shared::cta"), Dot("L1::evict_last"), Name("$L1"), Punctuation(':'), End]
        );
    }

    #[test]
    fn an_unfinished_comment_is_an_error_with_its_line() {
        assert_eq!(tokenize("\n/* x").unwrap_err().line, 2);
    }
}
