//! The data of renders, encrypted at rest if a key is configured (`StoreOptions::render_keys`).

use super::attempt::place;
use super::{RenderRecord, object};
use crate::error::Result;
use crate::tx::Renders;
use std::collections::BTreeMap;
use tidemill_domain::lease::Epoch;
use tidemill_domain::render::{RenderId, gfx};

/// The stored data of a render that a list reads for its preview, in characters at most.
const PREVIEWED_CHARS_MAX: u32 = 20_000;

crate::statement::row! {
    pub(crate) struct DataRow {
        id: i64,
        gfx_data: String,
        gfx_key_id: Option<String>,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resealed {
    /// Renders newly under the current key.
    pub count: u64,
    /// The last render processed; `None` when done.
    pub last: Option<RenderId>,
}

impl Renders<'_> {
    /// The decrypted `gfx_data`. `None` if there is no such render.
    pub async fn data(&mut self, id: RenderId) -> Result<Option<String>> {
        let Some(row) = self.render_data_find(id).await? else { return Ok(None) };
        self.render_keys().open(&object(id), row.gfx_data).map(Some)
    }

    /// What these renders show, in one line each. Renders with much data, and with data that cannot be read, are left out.
    #[crate::boxed]
    pub async fn previews(&mut self, renders: &[&RenderRecord]) -> Result<BTreeMap<RenderId, String>> {
        let ids: Vec<i64> = renders.iter().map(|record| record.id().get()).collect();
        let rows = self.render_data_short(&ids, PREVIEWED_CHARS_MAX).await?;
        let keys = self.render_keys();
        let preview = |row: DataRow| {
            let id = RenderId::new(row.id);
            let text = keys.open(&object(id), row.gfx_data).ok()?;
            Some((id, gfx::read(&text).ok()?.preview()))
        };
        Ok(rows.into_iter().filter_map(preview).collect())
    }

    /// Re-encrypts at most `limit` renders after `after` whose data or job is in clear or under another key. Repeat
    /// with `last` until it is `None`. Needs a transaction.
    #[crate::boxed]
    pub async fn reseal(&mut self, after: Option<RenderId>, limit: u32) -> Result<Resealed> {
        let keys = self.render_keys();
        let Some(current) = keys.current() else { return Ok(Resealed { count: 0, last: None }) };
        let after = after.map_or(i64::MIN, RenderId::get);
        let rows = self.render_data_lock_others(current, after, limit).await?;
        let last = rows.last().map(|row| RenderId::new(row.id));
        let count = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        for row in rows {
            let id = RenderId::new(row.id);
            if row.gfx_key_id.as_deref() != Some(current) {
                let text = keys.open(&object(id), row.gfx_data)?;
                self.seal_data(id, &text).await?;
            }
            for (epoch, stored) in self.render_attempt_documents(row.id).await? {
                let place = place(id, Epoch::new(epoch));
                let text = keys.open(&place, stored)?;
                if let Some(sealed) = keys.seal(&place, &text)? {
                    let (stored, key, hash) = (sealed.text(), sealed.key_id(), keys.hash(&text));
                    self.render_attempt_reseal(row.id, epoch, &stored, key, &hash).await?;
                }
            }
        }
        Ok(Resealed { count, last })
    }

    /// Returns the id of the key; does nothing without one.
    pub(super) async fn seal_data(&mut self, id: RenderId, text: &str) -> Result<Option<String>> {
        let Some(sealed) = self.render_keys().seal(&object(id), text)? else { return Ok(None) };
        let key = sealed.key_id().to_owned();
        self.render_data_save(id, &sealed.text(), Some(&key)).await?;
        Ok(Some(key))
    }

    /// Stores other data, encrypted if there is a key, and returns the id of that key.
    pub(super) async fn replace_data(&mut self, id: RenderId, text: &str) -> Result<Option<String>> {
        let key = self.seal_data(id, text).await?;
        if key.is_none() {
            self.render_data_save(id, text, None).await?;
        }
        Ok(key)
    }

    /// [`seal_data`](Self::seal_data) for data that another program has stored in clear.
    pub(super) async fn seal_clear_data(&mut self, id: RenderId) -> Result<Option<String>> {
        if self.render_keys().current().is_none() {
            return Ok(None);
        }
        match self.render_data_find(id).await? {
            Some(row) if row.gfx_key_id.is_none() => self.seal_data(id, &row.gfx_data).await,
            _ => Ok(None),
        }
    }
}
