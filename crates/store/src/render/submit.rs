//! Ordering a render. A dashboard may also insert a row itself.

use super::{RENDER_WAITING, object};
use crate::error::{Result, StoreError};
use crate::tx::Renders;
use serde_json::Value;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::render::{BroadcastDate, LABEL_CHARS_MAX, RenderId};
use tidemill_domain::time::Timestamp;

#[derive(Clone, PartialEq, Debug)]
pub struct NewRender {
    pub composition: Option<String>,
    /// The document's `gfx_data`, already checked.
    pub data: Value,
    /// What it is for. Until the first has ended, the same data for the same item is not ordered again: a double click.
    pub cue_item: Option<String>,
    pub priority: i32,
    /// When it is on air.
    pub deadline: Option<Timestamp>,
    /// Default: today.
    pub broadcast_date: Option<BroadcastDate>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Submitted {
    /// It waits for a worker.
    New(RenderId),
    /// The same was ordered before and has not ended.
    Known(RenderId),
}

impl Submitted {
    pub const fn id(self) -> RenderId {
        match self {
            Self::New(id) | Self::Known(id) => id,
        }
    }
}

/// Attempts, if others order and end the same render meanwhile.
const TRIES: usize = 3;

impl Renders<'_> {
    /// Needs a transaction.
    #[crate::boxed]
    pub async fn submit(&mut self, new: &NewRender, actor: &Actor) -> Result<Submitted> {
        let texts = [&new.composition, &new.cue_item];
        if has_nul(&new.data) || texts.into_iter().flatten().any(|text| text.contains('\0')) {
            return Err(StoreError::NulInRender);
        }
        let is_long = |text: &&String| text.chars().count() > LABEL_CHARS_MAX;
        if texts.into_iter().flatten().any(|text| is_long(&text)) {
            return Err(StoreError::LongRender);
        }
        let keys = self.render_keys();
        let text = new.data.to_string();
        let hash = new.cue_item.as_ref().map(|_| keys.hash(&text));
        // Encryption authenticates the row's id, so insert the row before its data.
        let data = if keys.current().is_some() { "{}" } else { &text };
        let now = self.now().await?;
        for _ in 0..TRIES {
            if let Some(id) = self.render_insert(new, data, hash.as_deref(), &actor.name, now).await? {
                let id = RenderId::new(id);
                self.seal_data(id, &text).await?;
                let entry = AuditEntry::new(actor.clone(), "render.submit", &object(id));
                self.audit_insert(&entry, now).await?;
                self.wake(RENDER_WAITING);
                return Ok(Submitted::New(id));
            }
            if let (Some(cue_item), Some(hash)) = (&new.cue_item, &hash)
                && let Some(id) = self.render_find_same(cue_item, hash).await?
            {
                return Ok(Submitted::Known(RenderId::new(id)));
            }
        }
        Err(StoreError::Busy(sqlx::Error::RowNotFound))
    }
}

/// Whether it contains NUL, also inside of JSON, which PostgreSQL rejects.
pub(super) fn has_nul(data: &Value) -> bool {
    match data {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
