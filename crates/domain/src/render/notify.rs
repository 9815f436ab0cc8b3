//! The end of a render, as alert channels hear of it.

use super::Status;
use crate::alert::Notice;
use crate::alert::notify::{self, End, Notify};
use crate::outbox::lifecycle_events::RenderChange;

/// The name under which alert channels get these notices, in place of a rule.
pub const RENDER_END: &str = "render_end";

/// None while there is nothing to tell. Of renders that wait, only those for approval are told of.
fn end(status: Status) -> Option<End> {
    match status {
        Status::Pending => Some(End::Waiting),
        Status::Completed => Some(End::Completed),
        Status::Failed => Some(End::Failed),
        Status::Cancelled => Some(End::Stopped),
        _ => None,
    }
}

/// The channels to notify of an end with this status, each once.
pub fn channels(all: &[Notify], status: Status) -> Vec<&str> {
    notify::channels(all, end(status))
}

pub fn notice(status: Status) -> Notice {
    end(status).unwrap_or(End::Failed).notice()
}

/// The schema of alerts, with the fields of the event of the same change. Without the message of a failure, which may
/// contain data.
pub fn to_json(change: &RenderChange<'_>) -> String {
    let (id, status) = (change.render, change.status);
    let fields = change.payload();
    let text = |name: &str| fields[name].as_str().map(str::to_owned);
    let name = text("composition").map(|name| format!(" ({name})")).unwrap_or_default();
    let more =
        text("output").or_else(|| text("error_code")).map(|more| format!(": {more}")).unwrap_or_default();
    let is = if status == Status::Pending { "waits for approval" } else { status.as_str() };
    let summary = format!("render {id}{name} {is}{more}");
    end(status).unwrap_or(End::Failed).to_json(
        RENDER_END,
        &format!("render/{id}"),
        change.at,
        &summary,
        fields,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use crate::render::RenderId;
    use crate::time::Timestamp;
    use serde_json::{Value, json};

    fn told(status: Status, code: Option<Code>, output: Option<&str>) -> Value {
        let change = RenderChange {
            render: RenderId::new(7),
            composition: Some("Chips"),
            cue_item: None,
            status,
            code,
            output,
            objects: &[],
            at: Timestamp::EPOCH,
        };
        serde_json::from_str(&to_json(&change)).unwrap()
    }

    #[test]
    fn a_receiver_learns_where_the_file_is_or_what_failed() {
        let completed = told(Status::Completed, None, Some("\\\\NAS\\a.mp4"));
        assert_eq!(completed["summary"], "render 7 (Chips) completed: \\\\NAS\\a.mp4");
        assert_eq!((&completed["notice"], &completed["severity"]), (&json!("resolved"), &json!("info")));
        assert_eq!((&completed["render"], &completed["output"]), (&json!(7), &json!("\\\\NAS\\a.mp4")));
        let failed = told(Status::Failed, Some(Code::FieldsNotMapped), None);
        assert_eq!(failed["summary"], "render 7 (Chips) failed: TM1503");
        assert_eq!((&failed["notice"], &failed["subject"]), (&json!("fired"), &json!("render/7")));
        assert_eq!((&failed["rule"], &failed["error_code"]), (&json!(RENDER_END), &json!("TM1503")));
        let waits = told(Status::Pending, None, None);
        assert_eq!(waits["summary"], "render 7 (Chips) waits for approval");
        assert_eq!((&waits["notice"], &waits["severity"]), (&json!("fired"), &json!("warning")));
        assert_eq!(channels(&["waiting:kim".parse().unwrap()], Status::Pending), ["kim"]);
        assert_eq!(channels(&["waiting:kim".parse().unwrap()], Status::Failed), [""; 0]);
        let ops = ["ops".parse().unwrap()];
        assert_eq!(channels(&ops, Status::Failed), ["ops"]);
    }
}
