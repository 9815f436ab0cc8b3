//! CEL expressions of `filter`, `map` and `decide`.
//!
//! An expression is parsed once and evaluated for each row, whose values are looked up on demand. The limits are
//! against accidents: the author of a job file may run programs anyway.

use crate::diagnostic::BadText;
use tidemill_domain::item::{ErrorKind, ItemError, Value};

mod decimal;
mod failure;
mod function;
mod inspect;
mod scope;
mod value;

pub use function::{FUNCTIONS, Function};
pub use scope::{CONTEXT, Scope};

use inspect::UsedNames;

pub const LENGTH_MAX: usize = 4096;

const NESTING_MAX: usize = 32;

/// Stack for parsing: the cel crate needs about 100 KiB for each bracket.
const READING_STACK: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub struct Expression {
    text: String,
    program: cel::Program,
    found: UsedNames,
}

impl Expression {
    /// Refuses unknown functions.
    ///
    /// ```
    /// # use tidemill_declare::expression::Expression;
    /// let filter = Expression::parse("row.amount != ''").unwrap();
    /// assert_eq!(filter.variables(), [("row".to_owned(), 0)]);
    /// let error = Expression::parse("uper(row.name)").unwrap_err();
    /// assert_eq!(error.message, "there is no function uper; did you mean upper?");
    /// ```
    pub fn parse(text: &str) -> Result<Self, BadText> {
        if text.trim().is_empty() {
            return Err(BadText::new("there is no expression", 0));
        }
        if text.len() > LENGTH_MAX {
            let message = format!("the expression has {} bytes; {LENGTH_MAX} are allowed", text.len());
            return Err(BadText::new(message, 0));
        }
        inspect::nesting(text, NESTING_MAX)?;
        // The cel crate parses recursively, and 32 brackets need more stack than a thread of the runtime has.
        let reading = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(READING_STACK);
            thread.spawn_scoped(scope, || read(text)).map(std::thread::ScopedJoinHandle::join)
        });
        match reading {
            Ok(Ok(read)) => read,
            Ok(Err(_)) => Err(BadText::new("the expression cannot be read", 0)),
            Err(error) => Err(BadText::new(format!("no thread to read it with: {error}"), 0)),
        }
    }

    /// The variables that it uses, such as `row`, with the offset of their first use in bytes.
    pub fn variables(&self) -> &[(String, usize)] {
        &self.found.variables
    }

    /// The fields of a variable that it uses, such as `date` of `parameters.date`, with their offsets in bytes.
    pub fn fields(&self, variable: &str) -> Vec<(String, usize)> {
        let of_variable = self.found.fields.iter().filter(|field| field.of == variable);
        of_variable.map(|field| (field.name.clone(), field.offset)).collect()
    }

    pub fn value(&self, scope: &Scope<'_>) -> Result<Value, ItemError> {
        let computed = self.compute(scope)?;
        value::from_cel(computed).map_err(|why| self.failed(&why))
    }

    /// Anything but true and false is an error.
    pub fn is_true(&self, scope: &Scope<'_>) -> Result<bool, ItemError> {
        match self.compute(scope)? {
            cel::Value::Bool(answer) => Ok(answer),
            other => {
                Err(self.failed(&format!("it has to be true or false and is {}", value::type_word(&other))))
            }
        }
    }

    /// Anything but a text is an error.
    pub fn answer(&self, scope: &Scope<'_>) -> Result<String, ItemError> {
        match self.compute(scope)? {
            cel::Value::String(answer) => Ok(answer.as_str().to_owned()),
            other => Err(self.failed(&format!("it has to be a text and is {}", value::type_word(&other)))),
        }
    }

    fn compute(&self, scope: &Scope<'_>) -> Result<cel::Value, ItemError> {
        let mut context = cel::Context::with_env(function::environment());
        context.set_variable_resolver(scope);
        self.program.execute(&context).map_err(|error| self.failed(&failure::text(&error)))
    }

    fn failed(&self, why: &str) -> ItemError {
        ItemError::new(ErrorKind::PROCESS, format!("{}: {why}", self.text.trim()))
    }
}

fn read(text: &str) -> Result<Expression, BadText> {
    let program =
        function::environment().compile(text).map_err(|errors| failure::of_parsing(text, &errors))?;
    let found = inspect::inspect(text, &program)?;
    Ok(Expression { text: text.to_owned(), program, found })
}

#[cfg(test)]
mod tests;
