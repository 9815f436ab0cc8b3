//! The variables that an expression can use.

use super::value::to_cel;
use crate::model::Names;
use cel::ExecutionError;
use cel::common::traits::Indexer;
use cel::common::types::{CelString, Type};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use tidemill_domain::item::{Row, Value};

/// Prefix of the message for a missing field, which tells it from a missing key of a map.
pub(super) const MISSING: &str = "there is no ";

/// Begins the names of values that earlier steps have set. They are among the parameters.
pub const CONTEXT: &str = "context.";

/// The variables of an expression. Cheap to make: it only borrows.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    pub row: Option<&'a Row>,
    pub parameters: &'a Names,
    pub others: &'a Names,
}

/// Called first with the whole of `row.amount`, so that a column is found in one step.
impl VariableResolver for Scope<'_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        let (first, field) = name.split_once('.').map_or((name, None), |(first, field)| (first, Some(field)));
        match (first, self.row, field) {
            ("row", Some(row), None) => Some(CowVal::owned(Fields::Row(row))),
            ("row", Some(row), Some(column)) => row.value(column).ok().map(to_cel),
            ("parameters", _, None) => Some(CowVal::owned(Fields::Parameters(self.parameters))),
            ("parameters", _, Some(parameter)) => self.parameters.get(parameter).map(to_cel),
            _ => match (self.others.get(name), field) {
                (Some(value), _) => Some(to_cel(value)),
                (None, None) if first == "context" => Some(CowVal::owned(Fields::Context(self.parameters))),
                (None, Some(_)) if first == "context" => self.parameters.get(name).map(to_cel),
                (None, _) => None,
            },
        }
    }
}

/// A whole row, all parameters or all values of earlier steps, for `row['amount']` and `has(row.amount)`.
#[derive(Clone, Copy, Debug)]
enum Fields<'a> {
    Row(&'a Row),
    Parameters(&'a Names),
    Context(&'a Names),
}

static FIELDS: Type = Type::new_unspecified_type("fields");

impl<'a> Fields<'a> {
    fn field(&self, name: &str) -> Result<&'a Value, String> {
        match self {
            Self::Row(row) => row.value(name).map_err(|error| error.to_string()),
            Self::Parameters(names) => names.get(name).ok_or_else(|| {
                let known = names.keys().filter(|known| !known.starts_with(CONTEXT));
                let known = known.map(String::as_str).collect::<Vec<_>>().join(", ");
                format!("{MISSING}parameter {name:?}; there are {known}")
            }),
            Self::Context(names) => names.get(&format!("{CONTEXT}{name}")).ok_or_else(|| {
                let known = names.keys().filter_map(|known| known.strip_prefix(CONTEXT));
                let known = known.collect::<Vec<_>>().join(", ");
                format!("{MISSING}value {name:?}; earlier steps have set {known}")
            }),
        }
    }
}

impl Val for Fields<'_> {
    fn get_type(&self) -> &Type {
        &FIELDS
    }

    fn cel_type() -> &'static Type {
        &FIELDS
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(*self)
    }
}

impl Indexer for Fields<'_> {
    fn get<'b, 'v>(&'b self, index: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let Some(name) = index.downcast_ref::<CelString<'_>>() else {
            return Err(ExecutionError::UnexpectedType {
                got: index.get_type().name().to_owned(),
                want: "string".to_owned(),
            });
        };
        self.field(name.inner()).map(to_cel).map_err(|why| ExecutionError::no_such_key(&why))
    }

    fn steal<'v>(self: Box<Self>, index: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.get(index).map(CowVal::into_owned)
    }
}
