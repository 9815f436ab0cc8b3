//! The public shape of everything Tidemill shows and accepts. The HTTP API answers with these types, `-o json` of the
//! command line prints them, and the detail pages of the dashboard show them: one name for each field everywhere.
//!
//! One file per noun. Fields are only ever added.

pub mod alert;
pub mod attached_table;
pub mod audit;
pub mod execution;
pub mod failed_event;
pub mod job;
pub mod outbox;
pub mod pool;
pub mod process;
pub mod render;
pub mod schedule;
pub mod status;
pub mod token;

use serde::Serialize;
use utoipa::ToSchema;

/// A type whose fields the command line can list.
pub trait View: Serialize {
    /// The names of the fields, in their order.
    const FIELDS: &'static [&'static str];
}

shapes! {
    /// The query string of a list without filters.
    pub struct Limit in query {
        /// Maximum number of items, from 1 to 500. Default 50.
        limit: Option<u32>,
    }
}

/// A page of a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Pass this as `before` (or `after`, if the list has that) to get the next page; null on the last page.
    pub next: Option<i64>,
}

impl<T> Page<T> {
    /// A list that has only one page.
    pub fn whole<R>(records: impl IntoIterator<Item = R>) -> Self
    where
        T: From<R>,
    {
        Self { items: records.into_iter().map(T::from).collect(), next: None }
    }

    /// A page of at most `limit` records. Read one record more than `limit`: it tells whether there is a next page.
    pub fn of<R>(records: &[R], limit: u32, id: impl Fn(&R) -> i64) -> Self
    where
        T: for<'a> From<&'a R>,
    {
        let shown = &records[..records.len().min(limit as usize)];
        let next = if shown.len() < records.len() { shown.last().map(id) } else { None };
        Self { items: shown.iter().map(T::from).collect(), next }
    }
}

/// Declares what Tidemill shows and accepts. An answer is a struct, or a view: then each field also has the source of its value.
/// `in body` is the body of a request, `in query` is a query string.
///
/// ```ignore
/// shapes! {
///     /// A worker that renders.
///     pub struct RenderWorker from worker: &WorkerRecord {
///         name: String = worker.name.clone(),
///         /// When it last sent a heartbeat.
///         seen_at: Timestamp = worker.seen_at,
///     }
///
///     /// Which mapping to delete.
///     pub struct DeleteMapping in query {
///         field: Option<String>,
///     }
/// }
/// ```
///
/// A view of several things is made from a tuple: `from (record, now): (&PoolRecord, Timestamp)`.
macro_rules! shapes {
    () => {};
    (
        $(#[$about:meta])*
        pub struct $name:ident from $source:tt: $record:ty {
            $($(#[$doc:meta])* $field:ident: $type:ty = $value:expr,)+
        }
        $($rest:tt)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, ::serde::Serialize, ::utoipa::ToSchema)]
        pub struct $name { $($(#[$doc])* pub $field: $type,)+ }

        impl $crate::View for $name {
            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),+];
        }

        impl From<$record> for $name {
            fn from($source: $record) -> Self {
                Self { $($field: $value,)+ }
            }
        }

        $crate::shapes! { $($rest)* }
    };
    ($(#[$about:meta])* pub struct $name:ident in query $fields:tt $($rest:tt)*) => {
        $crate::shapes! {
            @ #[derive(Debug, ::serde::Deserialize, ::utoipa::IntoParams)]
            #[into_params(parameter_in = Query)] #[serde(deny_unknown_fields)] $(#[$about])* $name $fields
        }
        $crate::shapes! { $($rest)* }
    };
    ($(#[$about:meta])* pub struct $name:ident in body $fields:tt $($rest:tt)*) => {
        $crate::shapes! {
            @ #[derive(Clone, Debug, ::serde::Deserialize, ::serde::Serialize, ::utoipa::ToSchema)]
            #[serde(deny_unknown_fields)] $(#[$about])* $name $fields
        }
        $crate::shapes! { $($rest)* }
    };
    ($(#[$about:meta])* pub struct $name:ident $fields:tt $($rest:tt)*) => {
        $crate::shapes! {
            @ #[derive(Clone, Debug, ::serde::Serialize, ::utoipa::ToSchema)] $(#[$about])* $name $fields
        }
        $crate::shapes! { $($rest)* }
    };
    (@ $(#[$attribute:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$attribute])*
        pub struct $name { $($(#[$doc])* pub $field: $type,)+ }

        impl $name {
            pub const FIELDS: &'static [&'static str] = &[$(stringify!($field)),+];
        }
    };
}

pub(crate) use shapes;
