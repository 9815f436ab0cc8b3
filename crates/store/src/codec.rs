//! Values that the two databases store differently: instants and ids.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueRef};
use sqlx::sqlite::{SqliteArgumentsBuffer, SqliteTypeInfo, SqliteValueRef};
use sqlx::{Decode, Encode, Postgres, Sqlite, Type};
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::Timestamp;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// An instant: `timestamptz` in PostgreSQL, microseconds since 1970 in SQLite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DbTime(pub(crate) Timestamp);

impl From<Timestamp> for DbTime {
    fn from(instant: Timestamp) -> Self {
        Self(instant)
    }
}

impl From<DbTime> for Timestamp {
    fn from(stored: DbTime) -> Self {
        stored.0
    }
}

/// PostgreSQL counts from 2000-01-01.
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;
const TIMESTAMPTZ: Oid = Oid(1184);
const TIMESTAMPTZ_ARRAY: Oid = Oid(1185);

impl Type<Postgres> for DbTime {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ)
    }
}

impl PgHasArrayType for DbTime {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ_ARRAY)
    }
}

impl Encode<'_, Postgres> for DbTime {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode(self.0.as_micros().saturating_sub(POSTGRES_EPOCH_MICROS), buffer)
    }
}

impl Decode<'_, Postgres> for DbTime {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        let micros: i64 = Decode::<Postgres>::decode(value)?;
        Ok(Self(Timestamp::from_micros(micros.saturating_add(POSTGRES_EPOCH_MICROS))))
    }
}

impl Type<Sqlite> for DbTime {
    fn type_info() -> SqliteTypeInfo {
        <i64 as Type<Sqlite>>::type_info()
    }

    fn compatible(found: &SqliteTypeInfo) -> bool {
        <i64 as Type<Sqlite>>::compatible(found)
    }
}

impl Encode<'_, Sqlite> for DbTime {
    fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Sqlite>::encode(self.0.as_micros(), buffer)
    }
}

impl Decode<'_, Sqlite> for DbTime {
    fn decode(value: SqliteValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(Self(Timestamp::from_micros(Decode::<Sqlite>::decode(value)?)))
    }
}

/// An id: `uuid` in PostgreSQL, its usual text in SQLite, so that people can read and type it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DbId(pub(crate) Uuid);

impl From<ProcessId> for DbId {
    fn from(id: ProcessId) -> Self {
        Self(id.as_uuid())
    }
}

impl From<DbId> for ProcessId {
    fn from(stored: DbId) -> Self {
        Self::new(stored.0)
    }
}

impl Type<Postgres> for DbId {
    fn type_info() -> PgTypeInfo {
        <Uuid as Type<Postgres>>::type_info()
    }
}

impl Encode<'_, Postgres> for DbId {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode(self.0, buffer)
    }
}

impl Decode<'_, Postgres> for DbId {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(Self(Decode::<Postgres>::decode(value)?))
    }
}

impl Type<Sqlite> for DbId {
    fn type_info() -> SqliteTypeInfo {
        <Hyphenated as Type<Sqlite>>::type_info()
    }
}

impl Encode<'_, Sqlite> for DbId {
    fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Sqlite>::encode(self.0.hyphenated(), buffer)
    }
}

impl Decode<'_, Sqlite> for DbId {
    fn decode(value: SqliteValueRef<'_>) -> Result<Self, BoxDynError> {
        let id: Hyphenated = Decode::<Sqlite>::decode(value)?;
        Ok(Self(id.into_uuid()))
    }
}
