//! The file of a render: found, checked, copied next to its final place, and renamed.

use super::target::Destinations;
use super::{ActResult, NewNotes, Task};
use crate::metrics;
use crate::render::places::Staged;
use crate::render::storage::{Content, Sight};
use serde_json::{Value, json};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::render::check::{Decoded, Finding, Verdict, check};
use tidemill_domain::render::lifecycle::Approval;
use tidemill_domain::render::output::Output;
use tidemill_domain::render::profile::ApprovalNeed;
use tidemill_domain::render::{Failure, LocalPath, Probe, Profile, Trouble, Work};
use tidemill_store::crash_point;
use tokio::sync::SemaphorePermit;

/// How often a file is copied again because it changed after the check.
const CHANGES_MAX: usize = 3;

impl Task {
    /// Whether the file is there although nexrender says otherwise.
    pub(super) async fn look_for_output(&self, failure: Failure) -> Result<ActResult, Trouble> {
        let staged = self.staged().await?;
        match self.worker.storage.settled(&staged.local, self.worker.options.quiet).await? {
            Some(Sight { bytes, .. }) => {
                let id = self.held.id;
                tracing::info!(render.id = %id, bytes, "the file of render {id} is there, although nexrender does not say so");
                Ok(Work::OutputFound.into())
            }
            None => {
                let message = match failure {
                    Failure::TimedOut => "it renders for longer than it may",
                    Failure::Stalled => "nothing was heard of the job for too long",
                    _ => "the job did not end in time",
                };
                Err(Trouble::new(failure, message))
            }
        }
    }

    /// The film in staging of a job that may be running, and whether it is whole and good. None if there is none, or it
    /// was judged before.
    pub(super) async fn film(&self) -> Option<(Sight, bool)> {
        let looked = async {
            let staged = self.staged().await?;
            let sight = self.worker.storage.settled(&staged.local, self.worker.options.quiet).await?;
            let Some(sight) = sight.filter(|sight| self.bad_film != Some(*sight)) else { return Ok(None) };
            let (_, verdict) = self.judged(&staged, &self.profile().await?).await?;
            Ok::<_, Trouble>(Some((sight, verdict.is_good())))
        };
        looked.await.ok().flatten()
    }

    pub(super) async fn validate(&self) -> Result<ActResult, Trouble> {
        let profile = self.profile().await?;
        let staged = self.staged().await?;
        crash_point!("render_before_validation");
        // A good file is whole, and the copy notices a later change: only one that is not good is waited for.
        let early = self.worker.storage.settled(&staged.local, Duration::ZERO).await?;
        let judged = match early {
            Some(_) => self.judged(&staged, &profile).await.ok(),
            None => None,
        };
        let checked = match (early, &judged) {
            (Some(sight), Some((_, verdict))) if verdict.is_good() => sight,
            _ => self.settled(&staged).await?,
        };
        let (probe, verdict) = match judged {
            Some(judged) if early == Some(checked) => judged,
            _ => self.judged(&staged, &profile).await?,
        };
        let report = Some(report_of(&probe, &verdict));
        let mut noted = NewNotes { report, checked: Some(checked), ..NewNotes::default() };
        if !verdict.is_good() {
            let trouble = Trouble::new(Failure::OutputInvalid, &verdict.message());
            return Ok(ActResult { work: Work::Failed(trouble), noted });
        }
        for warning in &verdict.warnings {
            let id = self.held.id;
            tracing::warn!(render.id = %id, "the file of render {id}: {warning}");
        }
        noted.poster_path = self.poster(&staged).await.map(|picture| picture.to_string());
        if profile.approval == ApprovalNeed::None || self.is_approved() {
            return Ok(ActResult { work: Work::Validated, noted });
        }
        // Only this content may be published later.
        let content = self.hashed(&staged).await?.ok_or_else(|| missing(&staged))?;
        (noted.output_bytes, noted.output_sha256) = (Some(content.bytes), Some(content.sha256));
        Ok(ActResult { work: Work::NeedsApproval, noted })
    }

    async fn hashed(&self, staged: &Staged) -> Result<Option<Content>, Trouble> {
        let _turn = self.turn().await;
        self.worker.storage.content(&staged.local).await
    }

    fn is_approved(&self) -> bool {
        self.record.render.approval == Some(Approval::Approved)
    }

    async fn judged(&self, staged: &Staged, profile: &Profile) -> Result<(Probe, Verdict), Trouble> {
        let _turn = self.turn().await;
        let probe = self.worker.inspector.inspect(&staged.local, profile).await?;
        let verdict = check(&probe, profile);
        Ok((probe, verdict))
    }

    /// Waits until the file is there and no longer grows.
    async fn settled(&self, staged: &Staged) -> Result<Sight, Trouble> {
        let (worker, begun) = (&self.worker, self.worker.now());
        loop {
            if let Some(sight) = worker.storage.settled(&staged.local, worker.options.quiet).await? {
                return Ok(sight);
            }
            if worker.now().since(begun) >= worker.options.settle_for {
                return Err(missing(staged));
            }
            // `settled` returns at once if there is no file.
            tokio::time::sleep(worker.options.quiet / 2).await;
        }
    }

    /// Optional: failing to make it does not fail the render.
    async fn poster(&self, staged: &Staged) -> Option<LocalPath> {
        let picture = self.worker.options.places.poster(staged)?;
        match self.worker.inspector.poster(&staged.local, &picture).await {
            Ok(()) => Some(picture),
            Err(trouble) => {
                let id = self.held.id;
                tracing::warn!(render.id = %id, "no picture of render {id} could be made: {}", trouble.message);
                None
            }
        }
    }

    /// Copies the checked file. If a node that was thought dead still writes to it, it is checked again, and a person is asked
    /// again.
    pub(super) async fn copy(&self) -> Result<ActResult, Trouble> {
        let (staged, output) = (self.staged().await?, self.output().await?);
        let to = self.destinations(&output).await?;
        // A store that is down, or takes no files, is not worth a copy.
        self.is_in_stores(&to, self.content().as_ref(), None).await?;
        self.may_upload(&to)?;
        let mut noted = NewNotes { checked: self.checked, ..NewNotes::default() };
        for _ in 0..CHANGES_MAX {
            // The file state of an earlier claim's check is unknown.
            if noted.checked.is_none() {
                let checked = self.validate().await?;
                if checked.work != Work::Validated {
                    return Ok(checked);
                }
                noted = checked.noted;
            }
            let content = self.copy_once(&staged, &output).await?;
            crash_point!("render_copied");
            if self.worker.storage.settled(&staged.local, Duration::ZERO).await? == noted.checked {
                let is_another = self.is_approved() && self.content().as_ref() != Some(&content);
                let work = if is_another { Work::NeedsApproval } else { Work::Copied };
                (noted.output_bytes, noted.output_sha256) = (Some(content.bytes), Some(content.sha256));
                to.note(&mut noted, self.record.output_objects.as_deref());
                return Ok(ActResult { work, noted });
            }
            noted.checked = None;
        }
        let message = format!("{} is written to again and again", staged.node);
        Err(Trouble::new(Failure::OutputInvalid, &message))
    }

    async fn copy_once(&self, staged: &Staged, output: &Output) -> Result<Content, Trouble> {
        let _turn = self.turn().await;
        let begun = self.worker.now();
        let content = self.worker.storage.copy(&staged.local, output).await?;
        let took = self.worker.now().since(begun);
        metrics::render_copy().record(took);
        self.worker.vitals().copy_took = Some(took);
        Ok(content)
    }

    pub(super) async fn publish(&self) -> Result<ActResult, Trouble> {
        let output = self.output().await?;
        // Without a record, nothing was copied.
        let Some(content) = self.content() else { return Ok(Work::FinalMissing.into()) };
        let to = self.destinations(&output).await?;
        self.upload(&to, &output, &content).await?;
        crash_point!("render_before_publishing");
        // Renaming cannot be undone, and a process that was frozen until now may have lost the render.
        if !self.held.is_trusted() {
            return Ok(Work::Stop.into());
        }
        if to.is_on_nas {
            self.worker.storage.publish(&output, &content).await?;
        } else {
            self.worker.storage.discard_part(&output).await?;
        }
        crash_point!("render_published");
        let mut published = self.published(&output, &to)?;
        to.note(&mut published.noted, self.record.output_objects.as_deref());
        Ok(published)
    }

    /// Whether an earlier claim has published the file. If it has only copied it for stores, the copy is used.
    pub(super) async fn look_at_final(&self) -> Result<ActResult, Trouble> {
        let output = self.output().await?;
        let to = self.destinations(&output).await?;
        let ours = self.content();
        if to.is_on_nas {
            match (self.worker.storage.published(&output).await?, &ours) {
                (None, _) => {}
                (Some(there), Some(ours)) if there == *ours => return self.published(&output, &to),
                // It is the file before, which publishing moves aside.
                (Some(_), _) if output.kept.is_some() => {}
                (Some(_), _) => {
                    let message =
                        format!("another file is {}", self.worker.options.places.published(&output)?);
                    return Err(Trouble::new(Failure::OutputConflict, &message));
                }
            }
        } else if ours.is_some() && self.is_in_stores(&to, ours.as_ref(), None).await? {
            return self.published(&output, &to);
        }
        if !to.have_stores() || ours.is_none() || self.record.render.cancel_requested_at.is_some() {
            return Ok(Work::FinalMissing.into());
        }
        match self.publish().await {
            // The copy is gone, or not what it was.
            Err(trouble) if trouble.failure == Failure::NasFailed => Ok(Work::FinalMissing.into()),
            done => done,
        }
    }

    fn published(&self, output: &Output, to: &Destinations<'_>) -> Result<ActResult, Trouble> {
        let place = match to.first_url().filter(|_| !to.is_on_nas) {
            Some(url) => url.to_owned(),
            None => self.worker.options.places.published(output)?.to_string(),
        };
        let aside = self.worker.options.places.kept_aside(output)?;
        let was_here = self.record.previous_output_path.as_ref() == Some(&place);
        let noted = NewNotes {
            previous_path: aside.filter(|_| was_here).map(|aside| aside.to_string()),
            output_path: Some(place),
            ..NewNotes::default()
        };
        Ok(ActResult { work: Work::Published, noted })
    }

    /// Limits concurrency: files are large, and decoding takes a whole CPU.
    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.worker.uploads.acquire().await.ok()
    }

    /// The content of the copied file, as recorded.
    fn content(&self) -> Option<Content> {
        let (bytes, sha256) = (self.record.output_bytes?, self.record.output_sha256.clone()?);
        Some(Content { bytes, sha256 })
    }

    /// The recorded path counts, even if the profile has changed.
    pub(super) async fn staged(&self) -> Result<Staged, Trouble> {
        let places = &self.worker.options.places;
        match &self.record.staged_path {
            // The folder was moved since: not the worker's fault, and another job gets another path.
            Some(path) => places.kept(path)?.ok_or_else(|| {
                let message =
                    format!("its file {path} is not where nodes leave files now, {}", places.staging);
                Trouble::new(Failure::OutputInvalid, &message)
            }),
            None => places.staged(self.uid(), &self.queue().await?, &self.profile().await?.extension),
        }
    }

    pub(super) async fn output(&self) -> Result<Output, Trouble> {
        let title = self.title().await?;
        let ending = self.record.staged_path.as_deref().and_then(|path| path.rsplit_once('.'));
        let extension = match ending {
            Some((_, extension)) => extension.to_owned(),
            None => self.profile().await?.extension,
        };
        let Some(date) = self.record.broadcast_date else {
            return Err(Trouble::refused(Code::BadBroadcastDate, "the render has no day of broadcast"));
        };
        let revision = self.record.output_revision;
        Ok(self.worker.options.places.output(self.uid(), revision, &title, &extension, date))
    }
}

fn missing(staged: &Staged) -> Trouble {
    Trouble::new(Failure::OutputInvalid, &format!("there is no complete file {}", staged.node))
}

/// The result of the checks, as it is stored with the attempt.
fn report_of(probe: &Probe, verdict: &Verdict) -> Value {
    let videos: Vec<Value> = probe
        .videos
        .iter()
        .map(|video| {
            json!({
                "codec": video.codec,
                "pixel_format": video.pixel_format,
                "width": video.width,
                "height": video.height,
                "rate": video.average_rate.map(|rate| rate.to_string()),
                "frames": video.frames,
                "packets": video.packets,
                "seconds": video.seconds,
            })
        })
        .collect();
    let audios: Vec<Value> = probe
        .audios
        .iter()
        .map(|sound| json!({ "sample_rate": sound.sample_rate, "seconds": sound.seconds }))
        .collect();
    let finding = |finding: &Finding| json!({ "check": finding.check.as_str(), "expected": finding.expected, "actual": finding.actual });
    let decoded = match &probe.decoded {
        None => json!("not tried"),
        Some(Decoded::Whole) => json!("whole"),
        Some(Decoded::Broken(line)) => json!({ "broken": line }),
    };
    json!({
        "is_good": verdict.is_good(),
        "failures": verdict.failures.iter().map(finding).collect::<Vec<_>>(),
        "warnings": verdict.warnings.iter().map(finding).collect::<Vec<_>>(),
        "bytes": probe.bytes,
        "format": probe.format,
        "videos": videos,
        "audios": audios,
        "decoded": decoded,
        "shares": {
            "black": probe.shares.black,
            "frozen": probe.shares.frozen,
            "silent": probe.shares.silent,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::render::check::Check;

    #[test]
    fn a_report_names_each_failure_with_what_was_expected_and_found() {
        let finding =
            Finding { check: Check::Resolution, expected: "1920x1080".into(), actual: "1280x720".into() };
        let verdict = Verdict { failures: vec![finding], warnings: Vec::new() };

        let report = report_of(&Probe::default(), &verdict);

        assert_eq!(report["is_good"], json!(false));
        let failure = json!({ "check": "resolution", "expected": "1920x1080", "actual": "1280x720" });
        assert_eq!(report["failures"], json!([failure]));
        assert_eq!(report["decoded"], json!("not tried"));
    }
}
