//! Values that the two databases store differently: instants, ids, and texts of other programs.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::{Oid, PgInterval};
use sqlx::postgres::{PgHasArrayType, PgTypeInfo};
use sqlx::sqlite::{SqliteTypeInfo, SqliteValueRef};
use sqlx::{Decode, Encode, Postgres, Sqlite, Type, ValueRef};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;
use tidemill_domain::outbox::RelayId;
use tidemill_domain::pool::TicketId;
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::{NotAnInstant, Timestamp};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// Gives a type the column type of another one.
macro_rules! stored_like {
    ($($value:ty, $database:ty: $like:ty;)+) => { $(
        impl Type<$database> for $value {
            fn type_info() -> <$database as sqlx::Database>::TypeInfo {
                <$like as Type<$database>>::type_info()
            }

            fn compatible(found: &<$database as sqlx::Database>::TypeInfo) -> bool {
                <$like as Type<$database>>::compatible(found)
            }
        }
    )+ };
}

stored_like! {
    DbTime, Sqlite: i64;
    DbXid, Sqlite: i64;
    DbId, Postgres: Uuid;
    DbId, Sqlite: Hyphenated;
    DbSpan, Postgres: PgInterval;
    DbSpan, Sqlite: i64;
    DbText, Postgres: String;
    DbText, Sqlite: String;
}

/// Gives a type the PostgreSQL type with this number.
macro_rules! numbered {
    ($($value:ty: $oid:literal;)+) => { $(
        impl Type<Postgres> for $value {
            fn type_info() -> PgTypeInfo {
                PgTypeInfo::with_oid(Oid($oid))
            }
        }
    )+ };
}

numbered! {
    // timestamptz, timestamp and xid8
    DbTime: 1184;
    DbStamp: 1114;
    DbXid: 5069;
}

/// Encodes a type through one that the driver knows.
macro_rules! encoded {
    ($($value:ty, $database:ty: |$of:ident| $encoded:expr;)+) => { $(
        impl Encode<'_, $database> for $value {
            fn encode_by_ref(
                &self,
                buffer: &mut <$database as sqlx::Database>::ArgumentBuffer,
            ) -> Result<IsNull, BoxDynError> {
                let $of = self;
                Encode::<$database>::encode($encoded, buffer)
            }
        }
    )+ };
}

encoded! {
    DbTime, Postgres: |time| time.0.as_micros().saturating_sub(POSTGRES_EPOCH_MICROS);
    DbTime, Sqlite: |time| time.0.as_micros();
    DbId, Postgres: |id| id.0;
    DbId, Sqlite: |id| id.0.hyphenated();
    DbSpan, Postgres: |span| PgInterval { months: 0, days: 0, microseconds: span.micros() };
    DbSpan, Sqlite: |span| span.micros();
    DbStamp, Postgres: |stamp| DbTime(stamp.0);
    DbStamp, Sqlite: |stamp| stamp_text(stamp.0);
}

/// Decodes a type through one that the driver knows.
macro_rules! decoded {
    ($($value:ty, $database:ty: |$stored:ident: $type:ty| $decoded:expr;)+) => { $(
        impl Decode<'_, $database> for $value {
            fn decode(value: <$database as sqlx::Database>::ValueRef<'_>) -> Result<Self, BoxDynError> {
                let $stored: $type = Decode::<$database>::decode(value)?;
                Ok($decoded)
            }
        }
    )+ };
}

decoded! {
    DbTime, Postgres: |micros: i64| Self(Timestamp::from_micros(micros.saturating_add(POSTGRES_EPOCH_MICROS)));
    DbTime, Sqlite: |micros: i64| Self(Timestamp::from_micros(micros));
    DbXid, Postgres: |xid: i64| Self(xid.cast_unsigned());
    DbXid, Sqlite: |xid: i64| Self(u64::try_from(xid)?);
    DbId, Postgres: |id: Uuid| Self(id);
    DbId, Sqlite: |id: Hyphenated| Self(id.into_uuid());
    DbText, Postgres: |text: String| Self { text, is_garbled: false };
    DbText, Sqlite: |bytes: &[u8]| Self::of(bytes);
    DbStamp, Postgres: |same: DbTime| Self(same.0);
}

/// How a value of the domain becomes a stored one, and comes back.
macro_rules! wraps {
    ($($stored:ident($value:ty) |$in:ident| $wrapped:expr, |$out:ident| $value_again:expr;)+) => { $(
        impl From<$value> for $stored {
            fn from($in: $value) -> Self {
                Self($wrapped)
            }
        }

        impl From<$stored> for $value {
            fn from($out: $stored) -> Self {
                $value_again
            }
        }
    )+ };
}

wraps! {
    DbTime(Timestamp) |instant| instant, |stored| stored.0;
    DbStamp(Timestamp) |instant| instant, |stored| stored.0;
    DbId(ProcessId) |id| id.get(), |stored| Self::new(stored.0);
    DbId(RelayId) |id| id.get(), |stored| Self::new(stored.0);
    DbId(TicketId) |id| id.get(), |stored| Self::new(stored.0);
}

/// An instant: `timestamptz` in PostgreSQL, microseconds since 1970 in SQLite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DbTime(pub(crate) Timestamp);

/// PostgreSQL counts from 2000-01-01.
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

impl PgHasArrayType for DbTime {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1185))
    }
}

/// In a list, as SQLite stores it.
impl serde::Serialize for DbTime {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0.as_micros())
    }
}

/// A transaction id: `xid8` in PostgreSQL, an unsigned 64-bit number; a plain number in SQLite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DbXid(pub(crate) u64);

/// `uuid` in PostgreSQL; text in SQLite, so that people can read and type it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DbId(pub(crate) Uuid);

impl PgHasArrayType for DbId {
    fn array_type_info() -> PgTypeInfo {
        <Uuid as PgHasArrayType>::array_type_info()
    }
}

impl serde::Serialize for DbId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0.hyphenated())
    }
}

/// From a JSON list that the database has made.
impl<'d> serde::Deserialize<'d> for DbId {
    fn deserialize<D: serde::Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&str as serde::Deserialize>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

/// From a JSON list that the database has made, in microseconds.
impl<'d> serde::Deserialize<'d> for DbTime {
    fn deserialize<D: serde::Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Timestamp::from_micros(<i64 as serde::Deserialize>::deserialize(deserializer)?)))
    }
}

/// `interval` in PostgreSQL, microseconds in SQLite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DbSpan(pub(crate) Duration);

impl DbSpan {
    fn micros(self) -> i64 {
        i64::try_from(self.0.as_micros()).unwrap_or(i64::MAX)
    }
}

/// A text that other programs write. PostgreSQL guarantees UTF-8; in SQLite invalid bytes become U+FFFD.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DbText {
    pub(crate) text: String,
    pub(crate) is_garbled: bool,
}

impl DbText {
    fn of(bytes: &[u8]) -> Self {
        match String::from_utf8_lossy(bytes) {
            Cow::Borrowed(text) => Self { text: text.to_owned(), is_garbled: false },
            Cow::Owned(text) => Self { text, is_garbled: true },
        }
    }
}

/// An instant as Spring Batch stores it: `timestamp` in PostgreSQL, text in SQLite, both in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DbStamp(pub(crate) Timestamp);

impl Type<Sqlite> for DbStamp {
    fn type_info() -> SqliteTypeInfo {
        <String as Type<Sqlite>>::type_info()
    }

    fn compatible(found: &SqliteTypeInfo) -> bool {
        <String as Type<Sqlite>>::compatible(found) || <i64 as Type<Sqlite>>::compatible(found)
    }
}

/// Java's driver stores milliseconds since 1970 by default, so accept those too.
impl Decode<'_, Sqlite> for DbStamp {
    fn decode(value: SqliteValueRef<'_>) -> Result<Self, BoxDynError> {
        if <i64 as Type<Sqlite>>::compatible(&value.type_info()) {
            let millis: i64 = Decode::<Sqlite>::decode(value)?;
            return Ok(Self(Timestamp::from_micros(millis.saturating_mul(1000))));
        }
        let text: &str = Decode::<Sqlite>::decode(value)?;
        Ok(Self(stamp_of(text)?))
    }
}

/// Without the zone, and with a space between date and time.
fn stamp_text(instant: Timestamp) -> String {
    instant.to_string().replace('T', " ").replace('Z', "")
}

fn stamp_of(text: &str) -> Result<Timestamp, NotAnInstant> {
    format!("{}Z", text.replace(' ', "T")).parse()
}

/// PostgreSQL cannot store NUL in a text.
pub(crate) fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// In hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_a_text_that_people_and_tools_can_read() {
        let instant: Timestamp = "2026-11-15T02:00:00.000120Z".parse().unwrap();

        assert_eq!(stamp_text(instant), "2026-11-15 02:00:00.000120");
        assert_eq!(stamp_of("2026-11-15 02:00:00.000120"), Ok(instant));
        assert_eq!(stamp_of("2026-11-15T02:00:00.00012"), Ok(instant));
        assert!(stamp_of("yesterday").is_err());
    }
}
