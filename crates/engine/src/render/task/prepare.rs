//! Builds the job of a render from its data, mapping and profile. Reports all problems at once.

use super::{ActResult, NewNotes, Task, unexpected};
use crate::render::composition_cache::Composition;
use crate::render::short_pause;
use std::sync::Arc;
use tidemill_domain::code::Code;
use tidemill_domain::render::document::{self, Ingredients};
use tidemill_domain::render::gfx::{self, GfxData};
use tidemill_domain::render::output;
use tidemill_domain::render::{Mapping, Profile, Trouble, Uid, Work};
use tidemill_store::StoreError;

impl Task {
    pub(super) async fn prepare(&self) -> Result<ActResult, Trouble> {
        let mut problems = Vec::new();
        let data = self.data().await?;
        let composition = self.composition(&data).map_err(|problem| problems.push(problem)).ok();
        let known = match &composition {
            Some(composition) => Some(self.known_composition(composition).await?),
            None => None,
        };
        let gfx = data.map_err(|problem| problems.push(problem)).ok();
        let profile = known.as_deref().and_then(|known| profile(known, &composition, &mut problems));
        let mapping = known.as_deref().and_then(|known| mapping(known, &mut problems));
        // The job is named after this claim.
        let uid = Uid::new(self.held.id, self.held.fence.epoch);
        let (Some(gfx), Some(profile), Some(mapping)) = (gfx, profile, mapping) else {
            return Err(refused(&problems));
        };
        let staged = self.worker.options.places.staged(uid, &profile.extension)?;
        let ingredients = Ingredients {
            uid,
            gfx: &gfx,
            mapping,
            profile,
            staging: &staged.node,
            allow: &self.worker.options.allow,
            priority: self.record.priority,
            tags: self.worker.options.tags.as_deref(),
        };
        let document =
            document::build(ingredients).map_err(|bad| Trouble::refused(bad.code(), &bad.to_string()))?;
        let noted = NewNotes {
            document: Some(document),
            staged_path: Some(staged.node.to_string()),
            remote_job: Some(uid.to_string()),
            ..NewNotes::default()
        };
        Ok(ActResult { work: Work::Prepared, noted })
    }

    pub(super) async fn known_composition(&self, composition: &str) -> Result<Arc<Composition>, Trouble> {
        let (worker, mut failures) = (&self.worker, 0_u32);
        loop {
            match worker.compositions.of(&worker.store, composition, worker.now()).await {
                Ok(known) => return Ok(known),
                Err(error) => passing(&error, &mut failures).await?,
            }
        }
    }

    pub(super) async fn profile(&self) -> Result<Profile, Trouble> {
        let composition = self.named_composition().await?;
        let known = self.known_composition(&composition).await?;
        let mut problems = Vec::new();
        let found = profile(&known, &Some(composition), &mut problems).cloned();
        found.ok_or_else(|| refused(&problems))
    }

    /// Its composition: that of its row, or of its data.
    pub(super) async fn named_composition(&self) -> Result<String, Trouble> {
        match &self.record.composition {
            Some(composition) => Ok(composition.clone()),
            None => self.composition(&self.data().await?).map_err(|problem| refused(&[problem])),
        }
    }

    /// The title for the file name.
    pub(super) async fn title(&self) -> Result<String, Trouble> {
        let in_data = self.data().await?.ok().and_then(|data| data.composition);
        output::title(in_data, self.record.composition.clone()).ok_or_else(|| refused(&[unnamed()]))
    }

    fn composition(&self, data: &Result<GfxData, Problem>) -> Result<String, Problem> {
        let in_data = || data.as_ref().ok().and_then(|data| data.composition.clone());
        self.record.composition.clone().or_else(in_data).ok_or_else(unnamed)
    }

    async fn data(&self) -> Result<Result<GfxData, Problem>, Trouble> {
        let mut failures = 0_u32;
        loop {
            let read = async { self.worker.store.read().await?.renders().data(self.held.id).await };
            match read.await {
                Ok(text) => {
                    let read = gfx::read(&text.unwrap_or_default());
                    return Ok(read.map_err(|bad| (bad.code(), bad.to_string())));
                }
                Err(error) => passing(&error, &mut failures).await?,
            }
        }
    }
}

type Problem = (Code, String);

fn unnamed() -> Problem {
    (Code::UnknownComposition, "neither the render nor its data names a composition".to_owned())
}

/// All problems, with the code of the first.
fn refused(problems: &[Problem]) -> Trouble {
    let texts: Vec<&str> = problems.iter().map(|(_, text)| text.as_str()).collect();
    let code = problems.first().map_or(Code::BadRenderData, |(code, _)| *code);
    Trouble::refused(code, &texts.join("; "))
}

fn profile<'a>(
    known: &'a Composition,
    composition: &Option<String>,
    problems: &mut Vec<Problem>,
) -> Option<&'a Profile> {
    if known.profile.is_none() {
        let composition = composition.as_deref().unwrap_or_default();
        problems.push((
            Code::UnknownComposition,
            format!("there is no profile of the composition {composition:?}"),
        ));
    }
    known.profile.as_ref()
}

fn mapping<'a>(known: &'a Composition, problems: &mut Vec<Problem>) -> Option<&'a Mapping> {
    match &known.mapping {
        Ok(mapping) => Some(mapping),
        Err(bad) => {
            problems.push((bad.code(), format!("the field mapping of the composition: {bad}")));
            None
        }
    }
}

/// Waits a little if a retry may help.
async fn passing(error: &StoreError, failures: &mut u32) -> Result<(), Trouble> {
    if !error.is_transient() {
        return Err(unexpected(error));
    }
    *failures = failures.saturating_add(1);
    tracing::warn!(%error, "what a render shows could not be read; will try again");
    tokio::time::sleep(short_pause(*failures)).await;
    Ok(())
}
