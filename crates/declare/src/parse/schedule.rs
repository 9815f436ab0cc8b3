//! The schedule of a job.

use super::{Reader, Table, tables};
use crate::document::Node;
use crate::model::{At, Place, ScheduleFile};
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::schedule::Schedule;

tables! {
    SCHEDULE = "a schedule" ["cron" "zone" "windows" "outside" "missed" "overlap" "grace" "parameters"]
        "schedule: { cron: \"0 2 * * *\", zone: Asia/Seoul }";
}

/// Maximum lateness before a tick counts as missed.
const GRACE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

impl Reader<'_> {
    /// Named after the job.
    pub(super) fn schedule(&mut self, node: &Node, job: &str) -> Option<At<ScheduleFile>> {
        let fields = self.table(node, "schedule", SCHEDULE)?;
        let mut places = BTreeMap::new();
        let mut schedule = Schedule::new(job, job);
        let cron = self.required_text(&fields, "cron")?;
        schedule.cron = note(&mut places, "cron", cron);
        for (key, field) in [
            ("zone", &mut schedule.zone),
            ("outside", &mut schedule.outside),
            ("missed", &mut schedule.missed),
            ("overlap", &mut schedule.overlap),
        ] {
            if let Some(text) = self.text_of(&fields, key) {
                *field = note(&mut places, key, text);
            }
        }
        if let Some(node) = fields.get("windows") {
            for (index, window) in self.texts(node, "windows")?.into_iter().enumerate() {
                schedule.windows.push(note(&mut places, &format!("windows[{index}]"), window));
            }
        }
        if let Some(node) = fields.get("grace") {
            schedule.grace = self.duration(node, "grace", Duration::from_secs(1)..=GRACE_MAX)?;
        }
        if let Some(node) = fields.get("parameters") {
            places.insert("parameters".to_owned(), node.place);
            let example = "parameters: { date: \"${tick.date-1d}\" }";
            for (key, node) in self.named(node, "parameters is a table by name", example)? {
                let text = self.text(node, &key.name)?;
                let text = note(&mut places, &format!("parameters.{}", key.name), text);
                schedule.parameters.push((key.name.clone(), text));
            }
        }
        Some(At { value: ScheduleFile { schedule, places }, place: node.place })
    }
}

fn note(places: &mut BTreeMap<String, Place>, part: &str, text: At<String>) -> String {
    places.insert(part.to_owned(), text.place);
    text.value
}
