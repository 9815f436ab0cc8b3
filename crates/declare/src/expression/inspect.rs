//! The names that an expression uses, and its limits.

use super::function;
use crate::diagnostic::BadText;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

/// Nesting depth. Evaluation takes about 15 KiB of stack per level.
const DEPTH_MAX: usize = 48;

/// Maximum of `all`, `exists`, `map` and `filter` in one expression.
const LOOPS_MAX: usize = 4;

const LOOPS_NESTED_MAX: usize = 2;

#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct UsedNames {
    /// External variables with the offset of their first use.
    pub(super) variables: Vec<(String, usize)>,
    pub(super) fields: Vec<Field>,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Field {
    pub(super) of: String,
    pub(super) name: String,
    pub(super) offset: usize,
}

/// Refuses more than `max` open brackets before parsing, which is recursive.
pub(super) fn nesting(text: &str, max: usize) -> Result<(), BadText> {
    let mut open = 0_usize;
    let mut quote = None;
    let mut is_escaped = false;
    for (offset, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), b'\\') => is_escaped = true,
            (Some(end), _) if byte == end => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'(' | b'[' | b'{') => {
                open += 1;
                if open > max {
                    return Err(BadText::new(format!("more than {max} brackets are open at once"), offset));
                }
            }
            (None, b')' | b']' | b'}') => open = open.saturating_sub(1),
            (None, _) => {}
        }
    }
    Ok(())
}

pub(super) fn inspect(text: &str, program: &cel::Program) -> Result<UsedNames, BadText> {
    let mut inspector =
        Inspector { text, program, bound: Vec::new(), loops: 0, nested: 0, found: UsedNames::default() };
    inspector.part(program.expression(), 0)?;
    Ok(inspector.found)
}

struct Inspector<'a> {
    text: &'a str,
    program: &'a cel::Program,
    /// Variables of the enclosing loops.
    bound: Vec<&'a str>,
    loops: usize,
    nested: usize,
    found: UsedNames,
}

type Visit = Result<(), BadText>;

impl<'a> Inspector<'a> {
    fn part(&mut self, part: &'a IdedExpr, depth: usize) -> Visit {
        if depth > DEPTH_MAX {
            let message = format!("the expression has more than {DEPTH_MAX} parts within parts; divide it");
            return Err(BadText::new(message, self.offset(part)));
        }
        let depth = depth + 1;
        match &part.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => {
                self.variable(name, self.offset(part));
                Ok(())
            }
            Expr::Select(select) => {
                // The place is that of the dot; for `has(a.b)` that of the bracket.
                let offset = if select.test { self.offset(&select.operand) } else { self.offset(part) + 1 };
                self.field(&select.operand, &select.field, offset);
                self.part(&select.operand, depth)
            }
            Expr::Call(call) => self.call(part, call, depth),
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.part(element, depth)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::StructField(field) => self.part(&field.value, depth),
                EntryExpr::MapEntry(entry) => {
                    self.part(&entry.key, depth)?;
                    self.part(&entry.value, depth)
                }
            }),
            Expr::Struct(literal) => {
                let message = format!("there is no type {}", literal.type_name);
                Err(BadText::new(message, self.offset(part)))
            }
            Expr::Comprehension(comprehension) => self.comprehension(part, comprehension, depth),
        }
    }

    fn call(&mut self, part: &'a IdedExpr, call: &'a CallExpr, depth: usize) -> Visit {
        if call.func_name.starts_with(|c: char| c.is_alphabetic() || c == '_' && call.func_name.len() == 1) {
            // The place is that of the bracket; the name is before it.
            let bracket = self.offset(part);
            let offset = self.text.get(..bracket).map_or(bracket, |before| {
                let before = before.trim_end();
                before.strip_suffix(call.func_name.as_str()).map_or(bracket, str::len)
            });
            function::check(call).map_err(|message| BadText::new(message, offset))?;
        }
        if let ("_[_]", [of, index]) = (call.func_name.as_str(), call.args.as_slice())
            && let Expr::Literal(LiteralValue::String(name)) = &index.expr
        {
            self.field(of, name.inner(), self.offset(index));
        }
        if let Some(target) = &call.target {
            self.part(target, depth)?;
        }
        call.args.iter().try_for_each(|argument| self.part(argument, depth))
    }

    fn comprehension(&mut self, part: &'a IdedExpr, of: &'a ComprehensionExpr, depth: usize) -> Visit {
        self.loops += 1;
        self.nested += 1;
        if self.loops > LOOPS_MAX || self.nested > LOOPS_NESTED_MAX {
            let message = format!(
                "at most {LOOPS_MAX} of all, exists, map and filter may stand in one expression, \
                 {LOOPS_NESTED_MAX} of them one within the other"
            );
            return Err(BadText::new(message, self.offset(part)));
        }
        self.nested -= 1;
        self.part(&of.iter_range, depth)?;
        self.part(&of.accu_init, depth)?;
        self.nested += 1;
        let outside = self.bound.len();
        self.bound.push(&of.iter_var);
        self.bound.extend(of.iter_var2.as_deref());
        self.part(&of.loop_cond, depth)?;
        self.part(&of.loop_step, depth)?;
        self.part(&of.result, depth)?;
        self.bound.truncate(outside);
        self.nested -= 1;
        Ok(())
    }

    fn is_bound(&self, name: &str) -> bool {
        name.starts_with('@') || self.bound.contains(&name)
    }

    fn variable(&mut self, name: &str, offset: usize) {
        let is_known = self.found.variables.iter().any(|(known, _)| known == name);
        if !is_known && !self.is_bound(name) && !function::is_type(name) {
            self.found.variables.push((name.to_owned(), offset));
        }
    }

    fn field(&mut self, of: &IdedExpr, name: &str, offset: usize) {
        if let Expr::Ident(variable) = &of.expr
            && !self.is_bound(variable)
        {
            self.found.fields.push(Field { of: variable.clone(), name: name.to_owned(), offset });
        }
    }

    fn offset(&self, part: &IdedExpr) -> usize {
        self.program.source_info().offset_for(part.id).map_or(0, |(start, _)| start as usize)
    }
}
