//! Renders, and what was tried with them.

pub mod batch;
pub mod selection;

use crate::{View, shapes};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_domain::lease::Lease;
use tidemill_domain::render::attempt::AttemptOutcome;
use tidemill_domain::render::lifecycle::Approval;
use tidemill_domain::render::mapping::MappingRow;
use tidemill_domain::render::remedy::remedy;
use tidemill_domain::render::{Phase, Profile, RenderId, Status};
use tidemill_domain::time::Timestamp;
use tidemill_store::render::{AttemptRecord, RenderRecord, TransitionRecord, WorkerRecord};
use utoipa::ToSchema;

shapes! {
    /// A render, without its data.
    pub struct Render from record: &RenderRecord {
        /// Later renders have higher numbers.
        id: i64 = record.id().get(),
        /// `pending`, `preparing`, `rendering`, `encoding`, `uploading`, `completed`, `failed` or `cancelled`.
        status: &'static str = record.render.status.as_str(),
        /// The current phase; of a pending render, the phase in which it resumes.
        phase: &'static str = record.render.phase.as_str(),
        /// The phase in words.
        phase_label: &'static str = record.render.phase.label(),
        /// In percent.
        progress: u8 = record.render.progress.get(),
        composition: Option<String> = record.composition.clone(),
        /// What the render was ordered for.
        cue_item: Option<String> = record.cue_item.clone(),
        /// The batch in which the render was ordered.
        batch: Option<i64> = record.batch.map(RenderId::get),
        /// Higher priorities render first.
        priority: i64 = record.priority,
        /// When the render goes on air.
        deadline: Option<Timestamp> = record.render.deadline,
        /// Set when the render is first claimed, at the latest.
        broadcast_date: Option<String> = record.broadcast_date.map(|date| date.to_string()),
        /// The current worker, or the last one.
        worker: Option<String> = record.worker_name.clone(),
        /// The worker loses the render unless it sends a heartbeat before this time.
        lease_until: Option<Timestamp> = match record.render.lease {
            Lease::Held { until, .. } => until,
            Lease::Free { .. } => None,
        },
        /// The name of the job in nexrender.
        remote_job: Option<String> = record.remote_job.clone(),
        /// How often a worker claimed the render.
        attempts: u32 = record.render.counts.attempts,
        /// How often the worker disappeared.
        recoveries: u32 = record.render.counts.recoveries,
        /// A pending render starts at this time at the earliest. If it waits for approval, it has waited since this time.
        run_after: Option<Timestamp> =
            Some(record.render.run_after).filter(|_| record.render.status == Status::Pending),
        /// `awaiting` while the file waits for a person's approval, `approved` after that; otherwise null.
        approval: Option<&'static str> = record.render.approval.map(Approval::as_str),
        cancel_requested_at: Option<Timestamp> = record.render.cancel_requested_at,
        /// Code of the last failure.
        error_code: Option<String> = record.render.reason.as_ref().map(|reason| reason.code.to_string()),
        /// Message of the last failure.
        error: Option<String> = record.render.reason.as_ref().map(|reason| reason.message.clone()),
        /// What to do about the last failure.
        remedy: Option<&'static str> = record.render.reason.as_ref().and_then(|reason| remedy(reason.code)),
        /// Path of the published file.
        output_path: Option<String> = record.output_path.clone(),
        /// URLs of the published file in object stores.
        output_objects: Vec<String> = record.objects().into_iter().map(str::to_owned).collect(),
        /// Grows when the render is rendered again after its file was published.
        output_revision: u32 = record.output_revision,
        /// Path of the file that was published before.
        previous_output_path: Option<String> = record.previous_output_path.clone(),
        output_bytes: Option<u64> = record.output_bytes,
        output_sha256: Option<String> = record.output_sha256.clone(),
        /// Path of a picture from the file.
        poster_path: Option<String> = record.poster_path.clone(),
        /// The key that encrypts the data; null when the data is stored in clear.
        encryption_key: Option<String> = record.key_id.clone(),
        created_at: Timestamp = record.created_at,
        /// When the render was first claimed.
        started_at: Option<Timestamp> = record.started_at,
        /// When the file was published.
        completed_at: Option<Timestamp> = record.completed_at,
        /// When the render completed, failed or was cancelled.
        ended_at: Option<Timestamp> = record.ended_at,
        /// From the first claim to the published file.
        duration_seconds: Option<f64> = record.duration_seconds,
        /// Grows with each change that Tidemill makes. A correction or an approval can name it.
        revision: i64 = record.revision,
    }

    /// One attempt to render.
    pub struct RenderAttempt from record: &AttemptRecord {
        /// Number of the claim. It fences the attempt.
        epoch: i64 = record.epoch.get(),
        worker: String = record.worker_name.clone(),
        /// The name of the job in nexrender.
        remote_job: Option<String> = record.remote_job.clone(),
        /// SHA-256 of the job sent to nexrender; an HMAC under the current key if the data is encrypted.
        document_sha256: Option<String> = record.document_sha256.clone(),
        started_at: Timestamp = record.started_at,
        ended_at: Option<Timestamp> = record.ended_at,
        /// `completed`, `failed`, `cancelled`, `retried`, `given_back` or `lost`.
        outcome: Option<&'static str> = record.outcome.map(AttemptOutcome::as_str),
        error_code: Option<String> = record.reason.as_ref().map(|reason| reason.code.to_string()),
        error: Option<String> = record.reason.as_ref().map(|reason| reason.message.clone()),
        /// Results of the checks of the file.
        #[schema(value_type = Option<Object>)]
        report: Option<Value> = record.report.clone(),
    }

    /// A change of a render's status.
    pub struct RenderTransition from record: &TransitionRecord {
        id: i64 = record.id,
        at: Timestamp = record.at,
        /// Null when the render was ordered.
        from: Option<&'static str> = record.from.map(Status::as_str),
        to: &'static str = record.to.as_str(),
        phase: Option<&'static str> = record.phase.map(Phase::as_str),
        /// Number of the claim at that time.
        epoch: i64 = record.epoch.get(),
        /// A worker, an operator, or the database user who wrote SQL.
        by: String = record.by.clone(),
        error_code: Option<String> = record.code.map(|code| code.to_string()),
    }

    /// A worker that renders.
    pub struct RenderWorker from record: &WorkerRecord {
        name: String = record.name.clone(),
        process: String = record.process.to_string(),
        /// `working`, `paused` or `draining`.
        state: &'static str = record.state.as_str(),
        /// Places at the farm that the worker uses: a render whose file is published uses none.
        in_flight: u32 = record.in_flight,
        /// Maximum number of renders at the farm at once.
        capacity: u32 = record.capacity,
        /// Time of the last heartbeat.
        seen_at: Timestamp = record.seen_at,
    }

    /// A render with its attempts and history.
    pub struct RenderDetail {
        #[serde(flatten)]
        render: Render,
        history: Vec<RenderTransition>,
        /// The oldest attempt first.
        tried: Vec<RenderAttempt>,
    }

    /// The data of a render.
    pub struct RenderData {
        /// As it was ordered.
        #[schema(value_type = Object)]
        gfx_data: Value,
    }

    /// Request for a render.
    #[schema(example = json!({ "gfx_data": { "composition_name": "lower-third", "single_fields": { "title": "Good evening" } }, "cue_item": "cue-1", "priority": 10 }))]
    pub struct OrderRender in body {
        /// `composition_name`, `slots`, `single_fields`, `flags`.
        #[schema(value_type = Object)]
        gfx_data: Value,
        /// The composition, if the data does not name it.
        composition: Option<String>,
        /// What the render is for. The same data for the same cue item is ordered only once.
        cue_item: Option<String>,
        /// Higher priorities render first. Default 0.
        #[serde(default)]
        priority: i32,
        /// When the render goes on air.
        #[schema(value_type = Option<String>)]
        deadline: Option<String>,
        /// Day of the broadcast, such as `2026-11-15`.
        broadcast_date: Option<String>,
    }

    /// A render that was ordered.
    pub struct OrderedRender {
        id: i64,
        /// False if the same render was ordered before and has not ended.
        is_new: bool,
        /// Fields of the template that stay empty.
        warnings: Vec<String>,
    }

    /// A correction of a render that has ended. Without a change the same data is rendered again.
    #[schema(example = json!({ "set": { "single_fields.title": "Good night" }, "reason": "wrong title" }))]
    pub struct CorrectRender in body {
        /// The whole data, in place of what there is.
        #[schema(value_type = Option<Object>)]
        gfx_data: Option<Value>,
        /// Single values by their paths, such as `single_fields.title`, or `slots.1.fields.name` for the slot with the number 1.
        #[serde(default)]
        #[schema(value_type = Object)]
        set: BTreeMap<String, Value>,
        /// The revision that you have looked at; refused if the render was changed since.
        revision: Option<i64>,
        /// Kept in the audit log.
        reason: Option<String>,
    }

    /// Approval of a render that waits for it.
    #[schema(example = json!({ "revision": 12, "reason": "names are right" }))]
    pub struct ApproveRender in body {
        /// The revision that you have looked at; refused if the render was changed since.
        revision: Option<i64>,
        /// Kept in the audit log.
        reason: Option<String>,
    }

    /// Rejection of a render that waits for approval.
    #[schema(example = json!({ "revision": 12, "reason": "a wrong name" }))]
    pub struct RejectRender in body {
        /// The revision that you have looked at; refused if the render was changed since.
        revision: Option<i64>,
        /// Why the file is not published. Kept in the audit log.
        reason: String,
    }

    /// What a request for a render would do.
    pub struct RenderPlan {
        composition: String,
        /// Fields of the template that stay empty.
        warnings: Vec<String>,
    }

    /// Filters for a list of renders.
    pub struct ListRenders in query {
        /// Maximum number of renders, from 1 to 500. Default 50.
        limit: Option<u32>,
        /// Only renders before this id: `next` of the previous page.
        before: Option<i64>,
        status: Option<String>,
        composition: Option<String>,
        /// Name of the worker.
        worker: Option<String>,
        /// Day of the broadcast.
        date: Option<String>,
        /// The batch in which they were ordered.
        batch: Option<i64>,
        /// Only those that are past their deadline and have not ended.
        #[serde(default)]
        late: bool,
    }

    /// The profile of a composition. It describes [`Profile`], which is read and written as it is.
    pub struct RenderProfile in body {
        composition: String,
        /// The name in the template, if it differs.
        name_in_template: Option<String>,
        /// Path of the After Effects project, as nodes see it.
        template: String,
        /// The output module of After Effects.
        output_module: String,
        /// The render settings of After Effects, unless they are its defaults.
        settings_template: Option<String>,
        /// File extension. Default `mp4`.
        extension: Option<String>,
        /// Container as ffprobe names it. Default `mp4`.
        container: Option<String>,
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
        /// Frames per second, such as `25` or `30000/1001`.
        rate: String,
        /// Allowed video codecs. Default `h264`.
        codecs: Option<BTreeSet<String>>,
        /// Allowed pixel formats. Default `yuv420p`; any if empty.
        pixel_formats: Option<BTreeSet<String>>,
        /// Such as `5s`, if every render has the same length.
        duration: Option<String>,
        /// Minimum file size. Default 1000.
        bytes_min: Option<u64>,
        /// `none`, `required` (at 48 kHz) or `any`, the default.
        audio: Option<String>,
        /// `on`, the default, decodes every frame before the file is published; `off` does not.
        decoding: Option<String>,
        /// `required` if a person has to approve each file before it is published; `none` is the default.
        approval: Option<String>,
        /// Fields that a render must fill. Default none.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        required_fields: BTreeSet<String>,
        /// How many slots a render must fill; 0 allows a render that fills no field.
        min_slots: Option<u16>,
        /// Alert channels that hear of the ends of its renders, such as `ops` or `failed:ops`. Default none.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        notify: BTreeSet<String>,
        /// Where its files are published: `nas` and names of `render.targets`. Default `nas` only.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        targets: BTreeSet<String>,
    }

    /// Where one field is shown. It describes [`MappingRow`], which is read and written as it is.
    pub struct FieldMapping in body {
        composition: String,
        /// `Slot 1 - name`, `Single - table_id` or `Flag 1`.
        field_name: String,
        layer_name: String,
        /// The composition of the layer, if it differs.
        layer_composition: Option<String>,
        /// The property of the layer. Default `Source Text`.
        property: Option<String>,
        /// `text`, the default, `image` or `expression`.
        kind: Option<String>,
        /// The text of an expression, or the folder of images that are given by name.
        source: Option<String>,
        /// Whether a render may leave the field out. Default false.
        optional: Option<bool>,
        /// `clear` or `leave`: what happens to a field that a render leaves out. Text is cleared by default; `clear`
        /// hides the layer of an image.
        unused: Option<String>,
    }

    /// How many mappings or profiles were saved or deleted.
    pub struct Changed {
        count: u64,
    }

    /// Filters for a list of field mappings.
    pub struct ListMappings in query {
        composition: Option<String>,
    }

    /// Which mapping to delete.
    pub struct DeleteMapping in query {
        /// Only the mapping of this field.
        field: Option<String>,
    }
}

impl RenderDetail {
    pub fn new(record: &RenderRecord, attempts: &[AttemptRecord], transitions: &[TransitionRecord]) -> Self {
        Self {
            render: record.into(),
            history: transitions.iter().map(RenderTransition::from).collect(),
            tried: attempts.iter().map(RenderAttempt::from).collect(),
        }
    }
}

impl View for Profile {
    const FIELDS: &'static [&'static str] = RenderProfile::FIELDS;
}

impl View for MappingRow {
    const FIELDS: &'static [&'static str] = FieldMapping::FIELDS;
}

/// Field mappings or profiles to save.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Items<T> {
    pub items: Vec<T>,
    /// Ignored, so that you can send a list back as you got it.
    #[serde(default, skip_serializing)]
    pub next: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The descriptions have exactly the fields of what they describe.
    #[test]
    fn a_profile_and_a_mapping_are_described_field_by_field() {
        let profile = json!({
            "composition": "Lower", "name_in_template": "L3", "template": "D:\\a.aep", "output_module": "H264",
            "settings_template": "Best", "extension": "mp4", "container": "mp4", "width": 1920, "height": 1080, "rate": "25",
            "codecs": ["h264"], "pixel_formats": [], "duration": "5s", "bytes_min": 1, "audio": "any", "decoding": "on", "approval": "required",
            "required_fields": ["Flag 1"], "min_slots": 2, "notify": ["failed:ops"],
            "targets": ["archive", "nas"],
        });
        let mapping = json!({
            "composition": "Lower", "field_name": "Flag 1", "layer_name": "F", "layer_composition": "C", "property": "P",
            "kind": "image", "source": "D:\\i", "optional": true, "unused": "leave",
        });

        let described: RenderProfile = serde_json::from_value(profile.clone()).unwrap();
        let read: Profile = serde_json::from_value(profile.clone()).unwrap();
        assert_eq!((json!(described), json!(read)), (profile.clone(), profile.clone()));
        assert_eq!(profile.as_object().unwrap().keys().collect::<Vec<_>>(), Profile::FIELDS);

        let described: FieldMapping = serde_json::from_value(mapping.clone()).unwrap();
        let read: MappingRow = serde_json::from_value(mapping.clone()).unwrap();
        assert_eq!((json!(described), json!(read)), (mapping.clone(), mapping.clone()));
        assert_eq!(mapping.as_object().unwrap().keys().collect::<Vec<_>>(), MappingRow::FIELDS);
    }
}
