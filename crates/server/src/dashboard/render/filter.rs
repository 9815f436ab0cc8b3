//! The query string of the list of renders.

use crate::api::render::{date, status};
use crate::dashboard::part::{given, query};
use crate::problem::Problem;
use serde::Deserialize;
use tidemill_domain::render::{RenderId, Status};
use tidemill_store::render::{RenderFilter, RenderRecord};

/// Empty fields do not filter.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RenderQuery {
    pub(super) status: String,
    pub(super) composition: String,
    pub(super) text: String,
    pub(super) date: String,
    before: Option<i64>,
}

impl RenderQuery {
    pub(super) fn status(&self) -> Result<Option<Status>, Problem> {
        given(&self.status).map(status).transpose()
    }

    /// Whether there is no filter but the status: then the page is live.
    pub(super) fn is_plain(&self) -> bool {
        let others = [&self.composition, &self.text, &self.date];
        self.before.is_none() && others.into_iter().all(|text| given(text).is_none())
    }

    pub(super) fn is_first(&self) -> bool {
        self.before.is_none()
    }

    pub(super) fn before(&self) -> Option<RenderId> {
        self.before.map(RenderId::new)
    }

    pub(super) fn filter(&self) -> Result<RenderFilter, Problem> {
        Ok(RenderFilter {
            status: self.status()?,
            composition: given(&self.composition).map(str::to_owned),
            worker: None,
            date: given(&self.date).map(date).transpose()?,
        })
    }

    pub(super) fn text(&self) -> Option<&str> {
        given(&self.text)
    }

    /// Whether a render matches, apart from its status.
    pub(super) fn meets(&self, record: &RenderRecord, filter: &RenderFilter) -> bool {
        let parts = [record.composition.as_deref(), record.cue_item.as_deref()];
        let error = record.render.reason.as_ref().map(|reason| reason.message.as_str());
        let mut texts = parts.into_iter().flatten().chain(error).map(str::to_lowercase);
        let has_text = self.text().is_none_or(|part| texts.any(|text| text.contains(&part.to_lowercase())));
        has_text
            && (filter.composition.is_none() || filter.composition == record.composition)
            && (filter.date.is_none() || filter.date == record.broadcast_date)
    }

    /// The query string of the same filter with another status, and `more` at its end.
    pub(super) fn query(&self, status: &str, more: &str) -> String {
        let fields = [
            ("status", status),
            ("composition", &self.composition),
            ("text", &self.text),
            ("date", &self.date),
        ];
        query(fields, more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_what_was_chosen_and_leaves_out_what_was_not() {
        let query = RenderQuery { composition: "a&b".into(), date: " ".into(), ..RenderQuery::default() };

        assert_eq!(query.query("failed", "before=7"), "?status=failed&composition=a%26b&before=7");
        assert_eq!(RenderQuery::default().query("", ""), "");
        assert!(
            RenderQuery { status: "failed".into(), date: " ".into(), ..RenderQuery::default() }.is_plain()
        );
        assert!(!query.is_plain());
    }
}
