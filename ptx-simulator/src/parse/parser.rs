//! A recursive-descent parser over the tokens of one module.

use super::ParseError;
use super::lexer::{Token, TokenKind, tokenize};
use super::syntax::*;

/// Nested scopes, operand lists and constant expressions deeper than this are refused, so that no text can
/// exhaust the stack.
const MAX_NESTING: u32 = 64;

/// Register ranges larger than this are refused.
const MAX_REGISTERS: u64 = 1 << 20;

type Result<T> = std::result::Result<T, ParseError>;

/// Parses the text of one PTX module.
pub fn parse(text: &str) -> Result<Module<'_>> {
    let tokens = tokenize(text)?;
    Parser { text, tokens, position: 0, nesting: 0, in_call: false }.module()
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    position: usize,
    nesting: u32,
    /// Whether the instruction at hand is a call, whose parentheses hold lists; others' hold constant expressions.
    in_call: bool,
}

/// The part of a variable declaration that several names after it may share.
struct VariableType {
    space: Space,
    element_bytes: u64,
    vector: u64,
    alignment: Option<u64>,
    external: bool,
}

impl<'a> Parser<'a> {
    // ---- tokens -------------------------------------------------------------------------------------------

    fn token(&self) -> Token<'a> {
        // The list always ends with an End token, and `advance` never passes it.
        self.tokens[self.position]
    }

    fn kind(&self) -> TokenKind<'a> {
        self.token().kind
    }

    fn ahead(&self, count: usize) -> TokenKind<'a> {
        self.tokens.get(self.position + count).map_or(TokenKind::End, |token| token.kind)
    }

    fn advance(&mut self) -> Token<'a> {
        let token = self.token();
        if self.position + 1 < self.tokens.len() {
            self.position += 1;
        }
        token
    }

    fn is(&self, character: char) -> bool {
        self.kind() == TokenKind::Punctuation(character)
    }

    fn eat(&mut self, character: char) -> bool {
        let found = self.is(character);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, character: char) -> Result<()> {
        if self.eat(character) { Ok(()) } else { Err(self.error(format!("expected `{character}`"))) }
    }

    fn name(&mut self, what: &str) -> Result<&'a str> {
        match self.kind() {
            TokenKind::Name(name) => {
                self.advance();
                Ok(name)
            }
            _ => Err(self.error(format!("expected {what}"))),
        }
    }

    fn integer(&mut self, what: &str) -> Result<u64> {
        match self.kind() {
            TokenKind::Integer(value) => {
                self.advance();
                Ok(value)
            }
            _ => Err(self.error(format!("expected {what}"))),
        }
    }

    fn integer_u32(&mut self, what: &str) -> Result<u32> {
        u32::try_from(self.integer(what)?).map_err(|_| self.error(format!("{what} is too large")))
    }

    fn error(&self, message: impl Into<String>) -> ParseError {
        let token = self.token();
        let text = match token.kind {
            TokenKind::End => "the end of the text".to_owned(),
            _ => self.line_text(token.start),
        };
        ParseError { line: token.line, text, message: message.into() }
    }

    fn line_text(&self, offset: usize) -> String {
        let start = self.text[..offset].rfind('\n').map_or(0, |position| position + 1);
        let end = self.text[offset..].find('\n').map_or(self.text.len(), |length| offset + length);
        self.text[start..end].trim().to_owned()
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(self.error(format!("more than {MAX_NESTING} nested levels")));
        }
        let result = inner(self);
        self.nesting -= 1;
        result
    }

    // ---- module -------------------------------------------------------------------------------------------

    fn module(mut self) -> Result<Module<'a>> {
        let mut module = Module::default();
        let mut versioned = false;
        loop {
            match self.kind() {
                TokenKind::End if versioned => return Ok(module),
                TokenKind::End => return Err(self.error("no `.version` directive, so this isn't a PTX module")),
                TokenKind::Dot("version") => {
                    self.advance();
                    if !matches!(self.advance().kind, TokenKind::Float64(_) | TokenKind::Integer(_)) {
                        return Err(self.error("expected a version number"));
                    }
                    versioned = true;
                }
                TokenKind::Dot("target") => {
                    self.advance();
                    loop {
                        module.target.push(self.name("a target")?);
                        if !self.eat(',') {
                            break;
                        }
                    }
                }
                TokenKind::Dot("address_size") => {
                    self.advance();
                    if self.integer("32 or 64")? != 64 {
                        return Err(self.error("only 64-bit addresses are supported"));
                    }
                }
                TokenKind::Dot("file") => self.file(&mut module)?,
                TokenKind::Dot("section") => self.section()?,
                TokenKind::Dot("pragma") => self.skip_to_semicolon()?,
                TokenKind::Dot("alias") => return Err(self.error("`.alias` is not supported")),
                TokenKind::Dot("loc") => {
                    self.location()?;
                }
                TokenKind::Punctuation(';') => {
                    self.advance();
                }
                TokenKind::Name(label) if label.starts_with("$L") && self.ahead(1) == TokenKind::Punctuation(':') => {
                    self.advance();
                    self.advance();
                }
                TokenKind::Dot(_) => self.declaration(&mut module)?,
                _ => return Err(self.error("expected a directive")),
            }
        }
    }

    fn file(&mut self, module: &mut Module<'a>) -> Result<()> {
        self.advance();
        let index = self.integer("a file number")?;
        let TokenKind::Text(name) = self.advance().kind else {
            return Err(self.error("expected a file name in quotes"));
        };
        while self.eat(',') {
            self.integer("a time stamp or size")?;
        }
        module.files.insert(index, name.replace("\\\\", "\\").replace("\\\"", "\""));
        Ok(())
    }

    /// DWARF sections carry nothing that execution needs.
    fn section(&mut self) -> Result<()> {
        while !self.is('{') {
            if self.kind() == TokenKind::End {
                return Err(self.error("expected `{` after `.section`"));
            }
            self.advance();
        }
        let mut depth = 0u32;
        loop {
            match self.advance().kind {
                TokenKind::Punctuation('{') => depth += 1,
                TokenKind::Punctuation('}') => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                TokenKind::End => return Err(self.error("a `.section` that doesn't end")),
                _ => {}
            }
        }
    }

    fn skip_to_semicolon(&mut self) -> Result<()> {
        loop {
            match self.advance().kind {
                TokenKind::Punctuation(';') => return Ok(()),
                TokenKind::End => return Err(self.error("expected `;`")),
                _ => {}
            }
        }
    }

    /// Linkage, then a function or a variable.
    fn declaration(&mut self, module: &mut Module<'a>) -> Result<()> {
        let mut external = false;
        loop {
            match self.kind() {
                TokenKind::Dot("visible" | "weak" | "common") => {
                    self.advance();
                }
                TokenKind::Dot("extern") => {
                    external = true;
                    self.advance();
                }
                TokenKind::Dot(word @ ("entry" | "func")) => {
                    self.advance();
                    let function = self.function(word == "entry")?;
                    module.functions.push(function);
                    return Ok(());
                }
                TokenKind::Dot("global" | "const" | "shared" | "local" | "param") => {
                    return self.variables(external, &mut module.variables);
                }
                TokenKind::Dot("tex" | "texref" | "samplerref" | "surfref") => {
                    return Err(self.error("textures and surfaces are not supported"));
                }
                _ => return Err(self.error("a directive that isn't known")),
            }
        }
    }

    // ---- variables ----------------------------------------------------------------------------------------

    fn space(&mut self) -> Result<Space> {
        let space = match self.kind() {
            TokenKind::Dot("global") => Space::Global,
            TokenKind::Dot("const") => Space::Constant,
            TokenKind::Dot("shared" | "shared::cta") => Space::Shared,
            TokenKind::Dot("local") => Space::Local,
            TokenKind::Dot("param") => Space::Parameter,
            _ => return Err(self.error("expected a state space")),
        };
        self.advance();
        Ok(space)
    }

    fn variables(&mut self, external: bool, into: &mut Vec<Variable<'a>>) -> Result<()> {
        let space = self.space()?;
        let mut kind = VariableType { space, element_bytes: 0, vector: 1, alignment: None, external };
        loop {
            match self.kind() {
                TokenKind::Dot("align") => {
                    self.advance();
                    kind.alignment = Some(self.alignment()?);
                }
                TokenKind::Dot(vector @ ("v2" | "v4" | "v8")) => {
                    self.advance();
                    kind.vector = u64::from(vector.as_bytes()[1] - b'0');
                }
                TokenKind::Dot("attribute") => {
                    self.advance();
                    self.expect('(')?;
                    while !self.eat(')') {
                        if self.kind() == TokenKind::End {
                            return Err(self.error("expected `)`"));
                        }
                        self.advance();
                    }
                }
                TokenKind::Dot(word) => match element_bytes(word) {
                    Some(bytes) => {
                        self.advance();
                        kind.element_bytes = bytes;
                        break;
                    }
                    None => return Err(self.error("expected the type of a variable")),
                },
                _ => return Err(self.error("expected the type of a variable")),
            }
        }
        loop {
            let variable = self.variable(&kind)?;
            into.push(variable);
            if !self.eat(',') {
                break;
            }
        }
        self.expect(';')
    }

    fn alignment(&mut self) -> Result<u64> {
        let alignment = self.integer("an alignment")?;
        if alignment.is_power_of_two() && alignment <= 1 << 16 {
            Ok(alignment)
        } else {
            Err(self.error("an alignment must be a power of two up to 65536"))
        }
    }

    fn variable(&mut self, kind: &VariableType) -> Result<Variable<'a>> {
        let line = self.token().line;
        let name = self.name("the name of a variable")?;
        let mut elements = Some(kind.vector);
        while self.eat('[') {
            if self.eat(']') {
                elements = None;
                continue;
            }
            let length = self.constant()?;
            elements = match elements {
                Some(count) => match count.checked_mul(length) {
                    Some(count) => Some(count),
                    None => return Err(self.error("an array that is too large")),
                },
                None => None,
            };
            self.expect(']')?;
        }
        let mut initial = Vec::new();
        if self.eat('=') {
            self.initializer(&mut initial)?;
            if elements.is_none() {
                elements = Some(initial.len() as u64);
            }
        }
        let variable = Variable {
            name,
            space: kind.space,
            element_bytes: kind.element_bytes,
            elements,
            alignment: kind.alignment.unwrap_or(kind.element_bytes * kind.vector),
            initial,
            external: kind.external,
            line,
        };
        if let Some(elements) = variable.elements {
            if variable.bytes().is_none_or(|bytes| bytes > 1 << 40) {
                return Err(self.error("an array that is too large"));
            }
            if variable.initial.len() as u64 > elements {
                return Err(self.error("more initial values than elements"));
            }
        }
        Ok(variable)
    }

    fn initializer(&mut self, into: &mut Vec<Initializer<'a>>) -> Result<()> {
        if self.eat('{') {
            return self.nested(|parser| {
                while !parser.eat('}') {
                    parser.initializer(into)?;
                    if !parser.is('}') {
                        parser.expect(',')?;
                    }
                }
                Ok(())
            });
        }
        let item = match self.kind() {
            TokenKind::Float32(bits) => {
                self.advance();
                Initializer::Float32(bits)
            }
            TokenKind::Float64(bits) => {
                self.advance();
                Initializer::Float64(bits)
            }
            TokenKind::Name("generic") => {
                self.advance();
                self.expect('(')?;
                let name = self.name("a variable")?;
                self.expect(')')?;
                let offset = self.optional_offset()?;
                Initializer::Address { name, offset, mask: None }
            }
            TokenKind::Name(name) => {
                self.advance();
                let offset = self.optional_offset()?;
                Initializer::Address { name, offset, mask: None }
            }
            TokenKind::Integer(mask) if self.ahead(1) == TokenKind::Punctuation('(') => {
                self.advance();
                self.advance();
                let generic = self.kind() == TokenKind::Name("generic") && self.ahead(1) == TokenKind::Punctuation('(');
                if generic {
                    self.advance();
                    self.advance();
                }
                let name = self.name("a variable")?;
                if generic {
                    self.expect(')')?;
                }
                let offset = self.optional_offset()?;
                self.expect(')')?;
                Initializer::Address { name, offset, mask: Some(mask) }
            }
            TokenKind::Punctuation('-') if matches!(self.ahead(1), TokenKind::Float32(_) | TokenKind::Float64(_)) => {
                self.advance();
                match self.advance().kind {
                    TokenKind::Float32(bits) => Initializer::Float32(bits ^ 1 << 31),
                    TokenKind::Float64(bits) => Initializer::Float64(bits ^ 1 << 63),
                    _ => return Err(self.error("expected a number")),
                }
            }
            _ => Initializer::Integer(self.constant()?),
        };
        into.push(item);
        Ok(())
    }

    fn optional_offset(&mut self) -> Result<i64> {
        let mut offset = 0i64;
        while self.is('+') || self.is('-') {
            let negative = self.is('-');
            self.advance();
            // Products bind tighter than the sum that an offset is.
            let value = self.nested(|parser| parser.binary_constant(5))? as i64;
            offset = if negative { offset.wrapping_sub(value) } else { offset.wrapping_add(value) };
        }
        Ok(offset)
    }

    // ---- constant expressions -----------------------------------------------------------------------------

    /// A constant expression with PTX's (that is, C's) operators, in 64-bit two's complement.
    fn constant(&mut self) -> Result<u64> {
        self.nested(|parser| parser.binary_constant(0))
    }

    fn binary_constant(&mut self, minimum: u8) -> Result<u64> {
        let mut left = self.unary_constant()?;
        loop {
            let (first, second) = (self.kind(), self.ahead(1));
            let TokenKind::Punctuation(first) = first else { return Ok(left) };
            let doubled = second == TokenKind::Punctuation(first);
            let (precedence, width) = match first {
                '*' | '/' => (6, 1),
                '+' | '-' => (5, 1),
                '<' | '>' if doubled => (4, 2),
                '&' if !doubled => (3, 1),
                '^' => (2, 1),
                '|' if !doubled => (1, 1),
                _ => return Ok(left),
            };
            if precedence <= minimum {
                return Ok(left);
            }
            for _ in 0..width {
                self.advance();
            }
            let right = self.nested(|parser| parser.binary_constant(precedence))?;
            left = match first {
                '*' => left.wrapping_mul(right),
                '/' if right == 0 => return Err(self.error("a division by zero in a constant")),
                '/' => (left as i64).wrapping_div(right as i64) as u64,
                '+' => left.wrapping_add(right),
                '-' => left.wrapping_sub(right),
                '<' => left.checked_shl(right.min(64) as u32).unwrap_or(0),
                '>' => left.checked_shr(right.min(64) as u32).unwrap_or(0),
                '&' => left & right,
                '^' => left ^ right,
                _ => left | right,
            };
        }
    }

    fn unary_constant(&mut self) -> Result<u64> {
        match self.kind() {
            TokenKind::Integer(value) => {
                self.advance();
                Ok(value)
            }
            TokenKind::Punctuation('-') => {
                self.advance();
                Ok(self.nested(Self::unary_constant)?.wrapping_neg())
            }
            TokenKind::Punctuation('+') => {
                self.advance();
                self.nested(Self::unary_constant)
            }
            TokenKind::Punctuation('~') => {
                self.advance();
                Ok(!self.nested(Self::unary_constant)?)
            }
            TokenKind::Punctuation('(') => {
                self.advance();
                // A cast says nothing that the 64 bits don't.
                if matches!(self.kind(), TokenKind::Dot("s64" | "u64")) {
                    self.advance();
                    self.expect(')')?;
                    return self.nested(Self::unary_constant);
                }
                let value = self.constant()?;
                self.expect(')')?;
                Ok(value)
            }
            _ => Err(self.error("expected a number")),
        }
    }

    // ---- functions ----------------------------------------------------------------------------------------

    fn function(&mut self, entry: bool) -> Result<Function<'a>> {
        let line = self.token().line;
        let mut returns = Vec::new();
        if !entry && self.is('(') {
            returns = self.parameters()?;
        }
        let name = self.name("the name of a function")?;
        let parameters = if self.is('(') { self.parameters()? } else { Vec::new() };
        let mut function = Function {
            name,
            entry,
            line,
            returns,
            parameters,
            max_threads: None,
            exact_threads: false,
            cluster: None,
            body: None,
        };
        loop {
            match self.kind() {
                TokenKind::Dot(word @ ("maxntid" | "reqntid")) => {
                    self.advance();
                    function.max_threads = Some(self.shape("a number of threads")?);
                    function.exact_threads = word == "reqntid";
                }
                TokenKind::Dot("reqnctapercluster") => {
                    self.advance();
                    function.cluster = Some(self.shape("a number of blocks")?);
                }
                TokenKind::Dot("explicitcluster") => {
                    let message =
                        "`.explicitcluster`: a cluster's shape must be the kernel's own (`.reqnctapercluster 2, 1, 1`)";
                    return Err(self.error(message.to_owned()));
                }
                TokenKind::Dot("minnctapersm" | "maxnctapersm" | "maxnreg" | "maxclusterrank") => {
                    self.advance();
                    self.integer("a number")?;
                }
                TokenKind::Dot("noreturn" | "unique" | "blocksareclusters") => {
                    self.advance();
                }
                TokenKind::Dot("abi_preserve" | "abi_preserve_control") => {
                    self.advance();
                    self.integer("a number")?;
                }
                TokenKind::Dot("pragma") => self.skip_to_semicolon()?,
                TokenKind::Punctuation(';') => {
                    self.advance();
                    return Ok(function);
                }
                TokenKind::Punctuation('{') => {
                    self.advance();
                    function.body = Some(self.nested(Self::statements)?);
                    return Ok(function);
                }
                _ => return Err(self.error("expected `{`, `;` or a performance directive")),
            }
        }
    }

    fn shape(&mut self, what: &str) -> Result<[u32; 3]> {
        let mut shape = [1; 3];
        for (index, extent) in shape.iter_mut().enumerate() {
            if index > 0 && !self.eat(',') {
                break;
            }
            *extent = self.integer_u32(what)?;
        }
        Ok(shape)
    }

    fn parameters(&mut self) -> Result<Vec<Parameter<'a>>> {
        self.expect('(')?;
        let mut parameters = Vec::new();
        while !self.eat(')') {
            parameters.push(self.parameter()?);
            if !self.is(')') {
                self.expect(',')?;
            }
        }
        Ok(parameters)
    }

    fn parameter(&mut self) -> Result<Parameter<'a>> {
        let register = match self.kind() {
            TokenKind::Dot("param") => false,
            TokenKind::Dot("reg") => true,
            _ => return Err(self.error("expected a `.param` or `.reg` parameter")),
        };
        self.advance();
        let mut alignment = None;
        let mut bytes = None;
        let mut pointer = false;
        loop {
            match self.kind() {
                TokenKind::Dot("align") => {
                    self.advance();
                    let value = self.alignment()?;
                    // `.ptr .align` speaks of what the pointer points to.
                    if !pointer {
                        alignment = Some(value);
                    }
                }
                TokenKind::Dot("ptr") => {
                    self.advance();
                    pointer = true;
                }
                TokenKind::Dot("global" | "shared" | "const" | "local") if pointer => {
                    self.advance();
                }
                TokenKind::Dot("pred") if register => {
                    return Err(self.error("predicates as parameters are not supported"));
                }
                TokenKind::Dot(word) => match element_bytes(word) {
                    Some(size) => {
                        self.advance();
                        bytes = Some(size);
                    }
                    None => return Err(self.error("expected the type of a parameter")),
                },
                _ => break,
            }
        }
        let Some(mut bytes) = bytes else { return Err(self.error("expected the type of a parameter")) };
        let alignment = alignment.unwrap_or(bytes);
        let name = self.name("the name of a parameter")?;
        while self.eat('[') {
            if self.is(']') {
                return Err(self.error("parameters of unknown size are not supported"));
            }
            let length = self.constant()?;
            bytes = match bytes.checked_mul(length) {
                Some(bytes) if bytes <= 1 << 20 => bytes,
                _ => return Err(self.error("a parameter that is too large")),
            };
            self.expect(']')?;
        }
        Ok(Parameter { name, register, bytes, alignment })
    }

    // ---- statements ---------------------------------------------------------------------------------------

    /// The statements up to the closing brace, which is consumed.
    fn statements(&mut self) -> Result<Vec<Statement<'a>>> {
        let mut statements = Vec::new();
        loop {
            match self.kind() {
                TokenKind::Punctuation('}') => {
                    self.advance();
                    return Ok(statements);
                }
                TokenKind::End => return Err(self.error("a body that doesn't end")),
                TokenKind::Punctuation('{') => {
                    self.advance();
                    let inner = self.nested(Self::statements)?;
                    statements.push(Statement::Scope(inner));
                }
                TokenKind::Punctuation(';') => {
                    self.advance();
                }
                TokenKind::Dot(word) => self.body_directive(word, &mut statements)?,
                TokenKind::Name(name) if self.ahead(1) == TokenKind::Punctuation(':') => {
                    let line = self.advance().line;
                    self.advance();
                    match self.kind() {
                        TokenKind::Dot("branchtargets") => {
                            self.advance();
                            let mut targets = Vec::new();
                            loop {
                                targets.push(self.name("a label")?);
                                if !self.eat(',') {
                                    break;
                                }
                            }
                            self.expect(';')?;
                            statements.push(Statement::BranchTargets { label: name, targets });
                        }
                        // Only indirect calls use these, and the decoder refuses those where they stand.
                        TokenKind::Dot("callprototype" | "calltargets") => self.skip_to_semicolon()?,
                        _ => statements.push(Statement::Label { name, line }),
                    }
                }
                TokenKind::Name(_) | TokenKind::Punctuation('@') => {
                    let instruction = self.instruction()?;
                    statements.push(Statement::Instruction(instruction));
                }
                _ => return Err(self.error("expected an instruction")),
            }
        }
    }

    fn body_directive(&mut self, word: &'a str, statements: &mut Vec<Statement<'a>>) -> Result<()> {
        match word {
            "reg" => {
                self.advance();
                statements.push(self.registers()?);
            }
            "loc" => {
                let location = self.location()?;
                statements.push(Statement::Location(location));
            }
            "local" | "shared" | "param" | "global" | "const" => {
                let mut variables = Vec::new();
                self.variables(false, &mut variables)?;
                statements.extend(variables.into_iter().map(Statement::Variable));
            }
            "pragma" => self.skip_to_semicolon()?,
            "section" => self.section()?,
            "extern" => {
                self.advance();
                let mut variables = Vec::new();
                self.variables(true, &mut variables)?;
                statements.extend(variables.into_iter().map(Statement::Variable));
            }
            _ => return Err(self.error("a directive that isn't known")),
        }
        Ok(())
    }

    fn location(&mut self) -> Result<Location> {
        self.advance();
        let file = self.integer("a file number")?;
        let line = self.integer_u32("a line")?;
        let column = self.integer_u32("a column")?;
        // `, function_name LABEL {+ offset}, inlined_at file line column`: the innermost line is the one we name.
        while self.eat(',') {
            match self.name("`function_name` or `inlined_at`")? {
                "function_name" => {
                    if matches!(self.kind(), TokenKind::Name(_) | TokenKind::Dot(_)) {
                        self.advance();
                    }
                    self.optional_offset()?;
                }
                "inlined_at" => {
                    for _ in 0..3 {
                        self.integer("a number")?;
                    }
                }
                _ => return Err(self.error("an attribute of `.loc` that isn't known")),
            }
        }
        Ok(Location { file, line, column })
    }

    fn registers(&mut self) -> Result<Statement<'a>> {
        if matches!(self.kind(), TokenKind::Dot("v2" | "v4")) {
            return Err(self.error("vector registers are not supported"));
        }
        let TokenKind::Dot(word) = self.kind() else { return Err(self.error("expected a register type")) };
        let class = match word {
            "pred" => RegisterClass::Predicate,
            "b8" | "u8" | "s8" | "b16" | "u16" | "s16" | "f16" | "bf16" => RegisterClass::Bits16,
            "b32" | "u32" | "s32" | "f32" | "f16x2" | "bf16x2" | "tf32" => RegisterClass::Bits32,
            "b64" | "u64" | "s64" | "f64" => RegisterClass::Bits64,
            "b128" => RegisterClass::Bits128,
            _ => return Err(self.error("a register type that isn't known")),
        };
        self.advance();
        let mut declarations = Vec::new();
        loop {
            let line = self.token().line;
            let name = self.name("a register")?;
            let mut count = None;
            if self.eat('<') {
                let value = self.integer("a number of registers")?;
                if value > MAX_REGISTERS {
                    return Err(self.error(format!("more than {MAX_REGISTERS} registers")));
                }
                count = Some(value as u32);
                self.expect('>')?;
            }
            declarations.push(RegisterDeclaration { name, count, class, line });
            if !self.eat(',') {
                break;
            }
        }
        self.expect(';')?;
        Ok(Statement::Registers { declarations })
    }

    // ---- instructions -------------------------------------------------------------------------------------

    fn instruction(&mut self) -> Result<Instruction<'a>> {
        let start = self.token().start;
        let guard = if self.eat('@') {
            let negated = self.eat('!');
            Some(Guard { name: self.name("a predicate")?, negated })
        } else {
            None
        };
        let line = self.token().line;
        let opcode = self.name("an instruction")?;
        let mut modifiers = Vec::new();
        while let TokenKind::Dot(word) = self.kind() {
            self.advance();
            modifiers.push(word);
        }
        self.in_call = opcode == "call";
        let mut operands = Vec::new();
        while !self.is(';') {
            if self.kind() == TokenKind::End || self.is('}') {
                return Err(self.error("expected `;` after an instruction"));
            }
            operands.push(self.operand()?);
            if !self.is(';') {
                self.expect(',')?;
            }
        }
        let end = self.advance().end;
        Ok(Instruction { guard, opcode, modifiers, operands, line, text: &self.text[start..end] })
    }

    fn operand(&mut self) -> Result<Operand<'a>> {
        let first = self.single_operand()?;
        if self.eat('|') {
            let second = self.single_operand()?;
            return Ok(Operand::Pair(Box::new(first), Box::new(second)));
        }
        Ok(first)
    }

    fn operand_list(&mut self, close: char) -> Result<Vec<Operand<'a>>> {
        self.nested(|parser| {
            let mut items = Vec::new();
            while !parser.eat(close) {
                items.push(parser.operand()?);
                if !parser.is(close) {
                    parser.expect(',')?;
                }
            }
            Ok(items)
        })
    }

    fn single_operand(&mut self) -> Result<Operand<'a>> {
        match self.kind() {
            TokenKind::Name("_") => {
                self.advance();
                Ok(Operand::Discard)
            }
            TokenKind::Name(name) => {
                self.advance();
                if let TokenKind::Dot(component) = self.kind() {
                    self.advance();
                    return Ok(Operand::Component(name, component));
                }
                if self.is('+') || self.is('-') {
                    let offset = self.optional_offset()?;
                    return Ok(Operand::Offset(name, offset));
                }
                Ok(Operand::Name(name))
            }
            TokenKind::Float32(bits) => {
                self.advance();
                Ok(Operand::Float32(bits))
            }
            TokenKind::Float64(bits) => {
                self.advance();
                Ok(Operand::Float64(bits))
            }
            TokenKind::Punctuation('-') if matches!(self.ahead(1), TokenKind::Float32(_) | TokenKind::Float64(_)) => {
                self.advance();
                Ok(match self.advance().kind {
                    TokenKind::Float32(bits) => Operand::Float32(bits ^ 1 << 31),
                    TokenKind::Float64(bits) => Operand::Float64(bits ^ 1 << 63),
                    _ => return Err(self.error("expected a number")),
                })
            }
            TokenKind::Punctuation('!') => {
                self.advance();
                Ok(Operand::Not(self.name("a predicate")?))
            }
            TokenKind::Punctuation('{') => {
                self.advance();
                Ok(Operand::Vector(self.operand_list('}')?))
            }
            TokenKind::Punctuation('(') if self.in_call => {
                self.advance();
                Ok(Operand::List(self.operand_list(')')?))
            }
            TokenKind::Punctuation('[') => {
                self.advance();
                self.address()
            }
            // The `|` of a pair isn't part of a constant here: operands are products and sums at most.
            _ => {
                let value = self.nested(|parser| parser.binary_constant(1))?;
                Ok(Operand::Integer(value))
            }
        }
    }

    fn address(&mut self) -> Result<Operand<'a>> {
        let base = match self.kind() {
            TokenKind::Name(name) => {
                self.advance();
                Some(name)
            }
            _ => None,
        };
        let offset = match base {
            Some(_) => self.optional_offset()?,
            None => self.constant()? as i64,
        };
        if self.eat(',') {
            self.expect('{')?;
            let coordinates = self.operand_list('}')?;
            self.expect(']')?;
            return Ok(Operand::TensorAddress { base, offset, coordinates });
        }
        self.expect(']')?;
        Ok(Operand::Address { base, offset })
    }
}

/// Bytes of a fundamental type; `None` if the word is no type that a variable can have.
fn element_bytes(word: &str) -> Option<u64> {
    Some(match word {
        "b8" | "u8" | "s8" => 1,
        "b16" | "u16" | "s16" | "f16" | "bf16" => 2,
        "b32" | "u32" | "s32" | "f32" | "f16x2" | "bf16x2" => 4,
        "b64" | "u64" | "s64" | "f64" => 8,
        "b128" => 16,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = ".version 9.0\n.target sm_90a, debug\n.address_size 64\n";

    fn body(text: &str) -> Vec<Statement<'static>> {
        let text = Box::leak(format!("{HEADER}.entry k() {{ {text} }}").into_boxed_str());
        parse(text).unwrap().functions.pop().unwrap().body.unwrap()
    }

    fn instruction(text: &str) -> Instruction<'static> {
        match body(text).pop() {
            Some(Statement::Instruction(instruction)) => instruction,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn guards_modifiers_and_operands_are_told_apart() {
        let parsed = instruction("@!%p1 setp.lt.and.s32 %p2|_, %r1, -5, !%p3;");
        assert!(parsed.guard.unwrap().negated);
        assert_eq!((parsed.opcode, parsed.modifiers.as_slice()), ("setp", ["lt", "and", "s32"].as_slice()));
        assert_eq!(parsed.operands[0], Operand::Pair(Box::new(Operand::Name("%p2")), Box::new(Operand::Discard)));
        assert_eq!(parsed.operands[2], Operand::Integer(-5i64 as u64));
        assert_eq!(parsed.operands[3], Operand::Not("%p3"));
    }

    #[test]
    fn addresses_take_signed_offsets() {
        assert_eq!(
            instruction("ld.global.v2.f32 {%f1, _}, [%rd1+-16];").operands[1],
            Operand::Address { base: Some("%rd1"), offset: -16 }
        );
        assert_eq!(instruction("ld.const.u8 %r1, [table + 2*3];").line, 4);
    }

    #[test]
    fn constants_follow_the_precedence_of_c() {
        assert_eq!(instruction("mov.u32 %r1, 1+2*3<<1;").operands[1], Operand::Integer(14));
        assert_eq!(instruction("mov.u32 %r1, ~0;").operands[1], Operand::Integer(u64::MAX));
    }

    #[test]
    fn initial_values_may_be_numbers_floats_and_addresses() {
        let text = format!("{HEADER}.global .align 8 .u64 p[4] = {{1, x, generic(x)+4, 0xFF00(generic(x))}};");
        let module = parse(&text).unwrap();
        assert_eq!(
            module.variables[0].initial,
            [
                Initializer::Integer(1),
                Initializer::Address { name: "x", offset: 0, mask: None },
                Initializer::Address { name: "x", offset: 4, mask: None },
                Initializer::Address { name: "x", offset: 0, mask: Some(0xff00) },
            ]
        );
    }

    #[test]
    fn dwarf_sections_are_skipped() {
        let text = format!("{HEADER}.file 1 \"a.rs\"\n.section .debug_abbrev\n{{\n.b8 1\n.b32 $L__x\n}}\n");
        assert_eq!(parse(&text).unwrap().files[&1], "a.rs");
    }

    #[test]
    fn inlined_locations_name_the_innermost_line() {
        let statements = body(".loc 1 7 3, function_name $L__info_string0, inlined_at 1 20 5 ret;");
        assert!(matches!(statements[0], Statement::Location(Location { file: 1, line: 7, column: 3 })));
    }

    #[test]
    fn deep_nesting_is_refused_and_not_a_stack_overflow() {
        for deep in ["{".repeat(100_000), "mov.u32 %r1, ".to_owned() + &"-".repeat(100_000), "x ((((".repeat(50_000)] {
            let text = format!("{HEADER}.entry k() {{ {deep}");
            assert!(parse(&text).is_err());
        }
    }

    #[test]
    fn an_error_names_line_and_text() {
        let error =
            parse(".version 8.0\n.target sm_70\n.address_size 64\n.entry k() {\n  add.s32 %r1 %r2;\n}").unwrap_err();
        assert_eq!(error.line, 5);
        assert_eq!(error.text, "add.s32 %r1 %r2;");
    }
}
