//! The pool units of a step.

use super::{Fields, Reader, Table, tables};
use crate::diagnostic::excerpt;
use crate::document::{Content, Node};
use crate::model::At;
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::hint::Hint;
use tidemill_domain::job::pool::{BadPoolUse, PoolUse};
use tidemill_domain::pool::{Class, PoolName};

tables! {
    POOL = "pool" ["name" "units" "min" "sessions" "class" "hint" "wait"]
        "pool: adw, or pool: { name: adw, units: 16, min: 4 }";
}

const UNITS_MAX: u64 = 1_000_000;

const WAIT_MAX: Duration = Duration::from_secs(30 * 86_400);

impl Reader<'_> {
    /// The name of a pool, or a table.
    pub(super) fn pool(&mut self, node: &Node) -> Option<At<PoolUse>> {
        if matches!(node.content, Content::Scalar(_) | Content::Null) {
            let wanted = PoolUse::new(self.pool_name(node)?);
            return Some(At { value: wanted, place: node.place });
        }
        let fields = self.table(node, "pool", POOL)?;
        let before = self.problems.len();
        let name = self.required(&fields, "name").and_then(|node| self.pool_name(node));
        let units = self.units(&fields, "units");
        let least = self.units(&fields, "min");
        let sessions = self.units(&fields, "sessions");
        let classes = Class::ALL.map(|class| (class.as_str(), class));
        let class = fields.get("class").and_then(|node| self.word(node, "class", &classes));
        let hint = self.text_of(&fields, "hint").map(|hint| hint.value);
        let wait = fields.get("wait").and_then(|node| self.duration(node, "wait", Duration::ZERO..=WAIT_MAX));
        let class = class.unwrap_or(Class::default());
        let wanted = PoolUse { pool: name?, units, least, sessions, class, hint, wait };
        if self.problems.len() == before {
            self.sense(&wanted, &fields);
        }
        Some(At { value: wanted, place: node.place })
    }

    fn pool_name(&mut self, node: &Node) -> Option<PoolName> {
        let text = self.text(node, "the name of a pool")?.value;
        let name = text.parse().ok();
        if name.is_none() {
            let what = format!("{:?} cannot be the name of a pool", excerpt(&text));
            self.wrong(node, what, "use letters, digits, '.', '_' and '-', as `tidemill pool list` shows it");
        }
        name
    }

    fn units(&mut self, fields: &Fields<'_>, name: &str) -> Option<NonZeroU32> {
        self.number_of(fields, name, 1..=UNITS_MAX).and_then(NonZeroU32::new)
    }

    fn sense(&mut self, wanted: &PoolUse, fields: &Fields<'_>) {
        let bad = wanted.check().err();
        let hint = Hint::parse(wanted.hint.as_deref().unwrap_or_default());
        let has_no_comment = hint.is_ok_and(|hint| hint.comments().is_empty());
        match (&bad, fields.get("min"), fields.get("hint")) {
            (Some(BadPoolUse::LeastAboveUnits { least, units }), Some(node), _) => {
                let what = format!("min is {least}, and the step asks for {units} only");
                self.wrong(node, what, format!("write min: {units} or less, or ask for more units"));
            }
            (Some(bad), _, Some(node)) => {
                self.wrong(node, bad.to_string(), "write the hint alone, such as \"/*+ PARALLEL(16) */\"");
            }
            (None, _, Some(node)) if has_no_comment => {
                let what = "this is no hint: one stands in a comment that begins with /*+ or --+";
                self.wrong(node, what, "write it as hint: \"/*+ PARALLEL(16) */\", or use ${units}");
            }
            _ => {}
        }
    }
}
