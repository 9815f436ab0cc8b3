//! Values as the driver binds them: domain types as their columns, a list as one value.

use crate::codec::{DbId, DbSpan, DbStamp, DbTime};
use serde::Serialize;
use serde_json::Value;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo};
use sqlx::sqlite::{SqliteArgumentsBuffer, SqliteTypeInfo};
use sqlx::{Encode, Postgres, Sqlite, Type};
use std::time::Duration;
use tidemill_domain::job::{ExecutionId, InstanceId, StepExecutionId};
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::{EventId, RelayId, Seq, Slot};
use tidemill_domain::pool::TicketId;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::RenderId;
use tidemill_domain::time::Timestamp;

/// A value that a statement takes; [`FromColumn`](super::columns::FromColumn) reads one.
pub(crate) trait Bind {
    type Bound;

    fn bound(self) -> Self::Bound;
}

impl<T: Bind> Bind for Option<T> {
    type Bound = Option<T::Bound>;

    fn bound(self) -> Self::Bound {
        self.map(T::bound)
    }
}

macro_rules! bind_as {
    ($($type:ty),+ => $bound:ty, |$value:ident| $how:expr) => { $(
        impl Bind for $type {
            type Bound = $bound;

            fn bound(self) -> $bound {
                let $value = self;
                $how
            }
        }
    )+ };
}

bind_as!(bool, i16, i32, i64, f64, Duration, DbId, DbSpan, DbStamp, DbTime, Rows => Self, |value| value);
bind_as!(String, &str, &String, &Option<String>, Vec<u8>, &[u8] => Self, |value| value);
bind_as!(Timestamp => DbTime, |instant| DbTime(instant));
bind_as!(ProcessId, RelayId, TicketId => DbId, |id| id.into());
bind_as!(Epoch, EventId, ExecutionId, InstanceId, RenderId, Seq, StepExecutionId => i64, |id| id.get());
bind_as!(Slot => i16, |slot| slot.get().into());
bind_as!(u16 => i32, |number| number.into());
bind_as!(u32 => i64, |number| number.into());
bind_as!(u64 => i64, |number| i64::try_from(number).unwrap_or(i64::MAX));

/// Many values as one, for `{in $1}`: an array in PostgreSQL, JSON in SQLite, which has no arrays.
pub(crate) struct List<T>(Vec<T>);

impl<T: Bind + Clone> Bind for &[T] {
    type Bound = List<T::Bound>;

    fn bound(self) -> Self::Bound {
        List(self.iter().cloned().map(T::bound).collect())
    }
}

impl<T: Bind> Bind for Vec<T> {
    type Bound = List<T::Bound>;

    fn bound(self) -> Self::Bound {
        List(self.into_iter().map(T::bound).collect())
    }
}

/// One column of many rows.
pub(crate) fn column<'v, R, T>(rows: &'v [R], value: impl Fn(&'v R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// Many rows as one value, for `{rows …}`: an array of JSON objects in PostgreSQL, a list in SQLite.
pub(crate) struct Rows(Vec<String>);

/// Rows whose fields have the names of the columns.
pub(crate) fn serialised(rows: &[impl Serialize]) -> Result<Rows, sqlx::Error> {
    let rows: Result<_, _> = rows.iter().map(serde_json::to_string).collect();
    rows.map(Rows).map_err(|error| sqlx::Error::Encode(error.into()))
}

/// Each row is an object with the names of the columns. Instants are microseconds.
pub(crate) fn rows<R>(rows: &[R], row: impl Fn(&R) -> Value) -> Rows {
    Rows(rows.iter().map(|one| row(one).to_string()).collect())
}

impl Type<Postgres> for Rows {
    fn type_info() -> PgTypeInfo {
        String::array_type_info()
    }
}

impl Encode<'_, Postgres> for Rows {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode_by_ref(&self.0, buffer)
    }
}

impl Type<Sqlite> for Rows {
    fn type_info() -> SqliteTypeInfo {
        <String as Type<Sqlite>>::type_info()
    }
}

impl Encode<'_, Sqlite> for Rows {
    fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Sqlite>::encode(format!("[{}]", self.0.join(",")), buffer)
    }
}

impl<T: PgHasArrayType> Type<Postgres> for List<T> {
    fn type_info() -> PgTypeInfo {
        T::array_type_info()
    }
}

impl<'q, T: PgHasArrayType> Encode<'q, Postgres> for List<T>
where
    T: Encode<'q, Postgres> + Type<Postgres>,
{
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        <Vec<T> as Encode<'q, Postgres>>::encode_by_ref(&self.0, buffer)
    }
}

impl<T> Type<Sqlite> for List<T> {
    fn type_info() -> SqliteTypeInfo {
        <String as Type<Sqlite>>::type_info()
    }
}

impl<T: Serialize> Encode<'_, Sqlite> for List<T> {
    fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Sqlite>::encode(serde_json::to_string(&self.0)?, buffer)
    }
}
