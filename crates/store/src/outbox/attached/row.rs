//! Row types for attached tables.

use crate::codec::DbTime;
use crate::error::{Result, damaged};
use crate::item::position::bytes_of_hex;
use crate::statement::stored;
use serde::Deserialize;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::attached::check::ColumnSchema;
use tidemill_domain::outbox::attached::row::{ClaimedRow, HEADERS_TEXT_BYTES_MAX, RowHeaders, RowPayload};
use tidemill_domain::outbox::attached::{AttachedTable, TableName};
use tidemill_domain::outbox::event::PAYLOAD_BYTES_MAX;

const ATTACHED: &str = "tidemill_outbox_adopted";

stored! {
    #[derive(Deserialize)]
    pub(super) struct Named in (ATTACHED, "schema_name table_name") {
        schema_name: String,
        table_name: String,
        topic: String,
        aggregate_type: String,
        event_type: String,
        time_zone: String,
    }
}

impl Named {
    /// Checks the name again, because it goes into the text of statements.
    pub(super) fn table(&self) -> Result<AttachedTable> {
        let broken = |column| damaged(ATTACHED, column, format!("{}.{}", self.schema_name, self.table_name));
        let name = TableName::new(&self.schema_name, &self.table_name).map_err(|_| broken("table_name"))?;
        let (kind, event) = (Some(self.aggregate_type.as_str()), Some(self.event_type.as_str()));
        AttachedTable::new(name, &self.topic, kind, event, Some(&self.time_zone)).map_err(|_| broken("topic"))
    }
}

/// Parses the list that a look returns.
pub(crate) fn named(text: &str) -> Result<Vec<AttachedTable>> {
    let named: Vec<Named> =
        serde_json::from_str(text).map_err(|_| damaged(ATTACHED, "table_name", "of a look"))?;
    named.iter().map(Named::table).collect()
}

crate::statement::row! {
    pub(crate) struct TableAccessRow {
        pub(crate) is_ordinary: bool,
        pub(crate) user_name: String,
        pub(crate) may_enter: bool,
        pub(crate) lacking: Vec<String>,
        pub(crate) has_unique_id: bool,
    }
}

crate::statement::row! {
    pub(crate) struct ColumnRow {
        name: String,
        type_name: String,
        is_nullable: bool,
        chars_max: Option<i32>,
        labels: Option<Vec<String>>,
    }
}

impl From<ColumnRow> for ColumnSchema {
    fn from(row: ColumnRow) -> Self {
        Self {
            name: row.name,
            type_name: row.type_name,
            is_nullable: row.is_nullable,
            chars_max: row.chars_max.and_then(|most| u32::try_from(most).ok()),
            labels: row.labels,
        }
    }
}

crate::statement::row! {
    /// A claimed row; without an id, an aggregate that another transaction has locked.
    pub(crate) struct ClaimRow {
        event_id: Option<i64>,
        aggregate_id: String,
        /// `None` if null or too large.
        payload: Option<String>,
        payload_bytes: i64,
        payload_type: String,
        /// `None` if null or too large.
        headers: Option<String>,
        headers_bytes: i64,
        updated_at: Option<DbTime>,
        attempts: i64,
    }
}

impl ClaimRow {
    /// The row, or the aggregate that was passed over. An unknown last change counts as now.
    pub(crate) fn claimed(self, now: DbTime) -> Result<ClaimedRow, String> {
        let Some(id) = self.event_id else { return Err(self.aggregate_id) };
        let is_over = |bytes: i64, most: usize| usize::try_from(bytes).ok().filter(|bytes| *bytes > most);
        let payload = match self.payload {
            None => match is_over(self.payload_bytes, PAYLOAD_BYTES_MAX) {
                Some(len) => RowPayload::TooLarge { len },
                None => RowPayload::Nothing,
            },
            Some(text) if self.payload_type == "bytea" => {
                let bytes = text.strip_prefix("\\x").and_then(bytes_of_hex);
                RowPayload::Bytes(bytes.unwrap_or_else(|| text.into_bytes()))
            }
            Some(text) => RowPayload::Text(text),
        };
        let headers = match self.headers {
            Some(text) => RowHeaders::Text(text),
            None if is_over(self.headers_bytes, HEADERS_TEXT_BYTES_MAX).is_some() => RowHeaders::TooLarge,
            None => RowHeaders::Nothing,
        };
        Ok(ClaimedRow {
            id: EventId::new(id),
            aggregate_id: self.aggregate_id,
            payload,
            headers,
            updated_at: self.updated_at.unwrap_or(now).into(),
            attempts: u32::try_from(self.attempts).unwrap_or(u32::MAX),
        })
    }
}

pub(crate) struct AttemptRow {
    pub(crate) event_id: i64,
    pub(crate) state: &'static str,
    pub(crate) attempts: i64,
    pub(crate) error: Option<String>,
}
