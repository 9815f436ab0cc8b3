//! Builds the job of a render from its data, mapping and profile. Reports all problems at once.

use super::{ActResult, NewNotes, Task, unexpected};
use crate::render::composition_cache::Composition;
use crate::render::short_pause;
use crate::{BoxFuture, locked};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::render::document::{self, Ingredients};
use tidemill_domain::render::gfx::{self, GfxData};
use tidemill_domain::render::{Failure, Profile, Trouble, Uid, Work, mapping, output};
use tidemill_store::StoreError;

/// How long an object store may take to say whether a name is free, before a file is rendered.
const STORE_WAIT: Duration = Duration::from_secs(5);

/// Why a render cannot be made.
pub(in crate::render) type Problem = (Code, String);

impl Task {
    pub(super) async fn prepare(&self) -> Result<ActResult, Trouble> {
        let data = self.data().await?;
        let composition = self.composition(&data);
        let known = match &composition {
            Ok(composition) => Some(self.known_composition(composition).await?),
            Err(_) => None,
        };
        let known = known.as_deref();
        let (Ok(gfx), Some(Composition { profile: Ok(profile), mapping: Ok(mapping) })) = (&data, known)
        else {
            let problems = [
                composition.as_ref().err(),
                data.as_ref().err(),
                known.and_then(|known| known.profile.as_ref().err()),
                known.and_then(|known| known.mapping.as_ref().err()),
            ];
            return Err(refused(&problems.into_iter().flatten().collect::<Vec<_>>()));
        };
        // The job is named after this claim.
        let uid = Uid::new(self.held.id, self.held.fence.epoch);
        let staged = self.worker.options.places.staged(uid, &self.queue().await?, &profile.extension)?;
        let ingredients = Ingredients {
            uid,
            gfx,
            mapping,
            profile,
            staging: &staged.node,
            allow: &self.worker.options.allow,
            priority: self.record.priority,
            tags: self.worker.options.tags.as_deref(),
        };
        let document =
            document::build(ingredients).map_err(|bad| Trouble::refused(bad.code(), &bad.to_string()))?;
        self.check_name().await?;
        let noted = NewNotes {
            document: Some(document),
            staged_path: Some(staged.node.to_string()),
            remote_job: Some(uid.to_string()),
            ..NewNotes::default()
        };
        Ok(ActResult { work: Work::Prepared, noted })
    }

    /// Before anything is rendered, as a file with the final name is not replaced. A NAS that fails now may be back then.
    async fn check_name(&self) -> Result<(), Trouble> {
        let output = self.output().await?;
        let to = self.destinations(&output).await?;
        // A store that is slow now does not keep the render from its node.
        match self.is_in_stores(&to, None, Some(STORE_WAIT)).await {
            Err(trouble) if trouble.failure == Failure::OutputConflict => return Err(trouble),
            _ => {}
        }
        if output.kept.is_some() || !to.is_on_nas {
            return Ok(());
        }
        match self.worker.storage.published(&output).await {
            Ok(Some(_)) => {
                let message = format!("{} is there already", self.worker.options.places.published(&output)?);
                Err(Trouble::new(Failure::OutputConflict, &message))
            }
            Err(trouble) if trouble.failure == Failure::OutputConflict => Err(trouble),
            _ => Ok(()),
        }
    }

    /// A word that only this queue has.
    pub(super) async fn queue(&self) -> Result<String, Trouble> {
        let read = || async { self.worker.store.read().await?.renders().queue().await };
        patiently(|| Box::pin(read())).await
    }

    async fn known_composition(&self, composition: &str) -> Result<Arc<Composition>, Trouble> {
        patiently(|| Box::pin(self.read_composition(composition))).await
    }

    async fn read_composition(&self, composition: &str) -> Result<Arc<Composition>, StoreError> {
        let (worker, now) = (&self.worker, self.worker.now());
        let mut tx = worker.store.read().await?;
        let revisions = tx.renders().revisions().await?;
        let kept = locked(&worker.compositions).find(composition, revisions, now);
        if let Some(known) = kept {
            return Ok(known);
        }
        let no_profile = || format!("there is no profile of the composition {composition:?}");
        let profile = tx.renders().profile(composition).await?;
        let profile = profile.ok_or_else(|| (Code::UnknownComposition, no_profile()));
        let rows = tx.renders().field_mappings(Some(composition)).await?;
        let mapping = mapping::read(&rows)
            .map(|mut all| all.remove(composition).unwrap_or_default())
            .map_err(|bad| (bad.code(), format!("the field mapping of the composition: {bad}")));
        let known = Arc::new(Composition { profile, mapping });
        locked(&worker.compositions).keep(composition, revisions, now, &known);
        Ok(known)
    }

    pub(super) async fn profile(&self) -> Result<Profile, Trouble> {
        let composition = match &self.record.composition {
            Some(composition) => composition.clone(),
            None => self.composition(&self.data().await?).map_err(|problem| refused(&[&problem]))?,
        };
        let known = self.known_composition(&composition).await?;
        known.profile.clone().map_err(|problem| refused(&[&problem]))
    }

    /// The title for the file name.
    pub(super) async fn title(&self) -> Result<String, Trouble> {
        let in_data = self.data().await?.ok().and_then(|data| data.composition);
        output::title(in_data, self.record.composition.clone()).ok_or_else(|| refused(&[&unnamed()]))
    }

    /// The composition of its row, or of its data.
    fn composition(&self, data: &Result<GfxData, Problem>) -> Result<String, Problem> {
        let in_data = || data.as_ref().ok().and_then(|data| data.composition.clone());
        self.record.composition.clone().or_else(in_data).ok_or_else(unnamed)
    }

    async fn data(&self) -> Result<Result<GfxData, Problem>, Trouble> {
        let read = || async { self.worker.store.read().await?.renders().data(self.held.id).await };
        let text = patiently(|| Box::pin(read())).await?;
        Ok(gfx::read(&text.unwrap_or_default()).map_err(|bad| (bad.code(), bad.to_string())))
    }
}

fn unnamed() -> Problem {
    (Code::UnknownComposition, "neither the render nor its data names a composition".to_owned())
}

/// All problems, with the code of the first.
fn refused(problems: &[&Problem]) -> Trouble {
    let texts: Vec<&str> = problems.iter().map(|(_, text)| text.as_str()).collect();
    let code = problems.first().map_or(Code::BadRenderData, |(code, _)| *code);
    Trouble::refused(code, &texts.join("; "))
}

/// Reads again after a little while if that may help.
async fn patiently<'a, T>(read: impl Fn() -> BoxFuture<'a, Result<T, StoreError>>) -> Result<T, Trouble> {
    let mut failures = 0_u32;
    loop {
        match read().await {
            Ok(found) => return Ok(found),
            Err(error) if !error.is_transient() => return Err(unexpected(&error)),
            Err(error) => {
                failures = failures.saturating_add(1);
                tracing::warn!(%error, "what a render shows could not be read; will try again");
                tokio::time::sleep(short_pause(failures)).await;
            }
        }
    }
}
