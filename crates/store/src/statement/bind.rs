//! A list as one bound value.

use serde::Serialize;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo};
use sqlx::sqlite::{SqliteArgumentsBuffer, SqliteTypeInfo};
use sqlx::{Encode, Postgres, Sqlite, Type};

/// For `{in $1}`: an array in PostgreSQL, JSON in SQLite, which has no arrays.
pub(crate) struct List<'v, T>(&'v [T]);

pub(crate) fn list<T>(values: &[T]) -> List<'_, T> {
    List(values)
}

/// One column of many rows: an array for `unnest` in PostgreSQL.
pub(crate) fn column<'v, R, T>(rows: &'v [R], value: impl Fn(&'v R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

impl<T: PgHasArrayType> Type<Postgres> for List<'_, T> {
    fn type_info() -> PgTypeInfo {
        T::array_type_info()
    }
}

impl<'q, T: PgHasArrayType> Encode<'q, Postgres> for List<'_, T>
where
    T: Encode<'q, Postgres> + Type<Postgres>,
{
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        <&[T] as Encode<'q, Postgres>>::encode_by_ref(&self.0, buffer)
    }
}

impl<T> Type<Sqlite> for List<'_, T> {
    fn type_info() -> SqliteTypeInfo {
        <String as Type<Sqlite>>::type_info()
    }
}

impl<T: Serialize> Encode<'_, Sqlite> for List<'_, T> {
    fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Sqlite>::encode(serde_json::to_string(self.0)?, buffer)
    }
}
