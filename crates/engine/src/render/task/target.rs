//! The targets of a render. Each object store has the whole file before the NAS gives it its final name, so playout sees it
//! last.

use super::{NewNotes, Task};
use crate::render::storage::Content;
use crate::render::target::Store;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::render::output::Output;
use tidemill_domain::render::target::Chosen;
use tidemill_domain::render::{Failure, Trouble};

/// Where the file of a render is published.
pub(super) struct Destinations<'a> {
    pub(super) is_on_nas: bool,
    objects: Vec<Object<'a>>,
}

struct Object<'a> {
    store: &'a Store,
    url: String,
}

impl Destinations<'_> {
    pub(super) fn have_stores(&self) -> bool {
        !self.objects.is_empty()
    }

    pub(super) fn first_url(&self) -> Option<&str> {
        self.objects.first().map(|object| object.url.as_str())
    }

    /// For the row: these, and after an empty line all others that it has had, which are deleted with the render. A row that
    /// never had any stays as it is.
    pub(super) fn note(&self, noted: &mut NewNotes, before: Option<&str>) {
        let before = before.unwrap_or_default();
        let urls: Vec<&str> = self.objects.iter().map(|object| object.url.as_str()).collect();
        let others: Vec<&str> = before.lines().filter(|url| !url.is_empty() && !urls.contains(url)).collect();
        let mut all = urls.join("\n");
        if !others.is_empty() {
            all = format!("{all}\n\n{}", others.join("\n"));
        }
        noted.output_objects = Some(all).filter(|all| all.as_str() != before);
    }
}

impl Task {
    pub(super) async fn destinations(&self, output: &Output) -> Result<Destinations<'_>, Trouble> {
        let profile = self.profile().await?;
        let chosen = self.worker.options.targets.of(&profile);
        let Chosen { is_on_nas, stores } = chosen.map_err(|unknown| {
            // Not the fault of the render: other workers may know the target already.
            let worker = &self.worker.options.name;
            let why =
                format!("the worker {worker} lacks a target; set render.targets on all workers: {unknown}");
            Trouble::new(Failure::TargetDown, &why)
        })?;
        let object = |(name, folder): (&str, &str)| {
            Some(Object { store: self.worker.stores.get(name)?, url: format!("{folder}/{}", output.key) })
        };
        Ok(Destinations { is_on_nas, objects: stores.into_iter().filter_map(object).collect() })
    }

    /// Whether all object stores have this file. Another one under its name is a conflict. Each store has this long to answer,
    /// if there is a limit.
    pub(super) async fn is_in_stores(
        &self,
        to: &Destinations<'_>,
        content: Option<&Content>,
        within: Option<Duration>,
    ) -> Result<bool, Trouble> {
        let mut is_everywhere = true;
        for Object { store, url } in &to.objects {
            match store.ask(within, self.worker.storage.object(url)).await? {
                None => is_everywhere = false,
                Some(found) if Some(&found) == content => {}
                Some(_) => {
                    let message = format!("another object is {url}");
                    return Err(Trouble::new(Failure::OutputConflict, &message));
                }
            }
        }
        Ok(is_everywhere)
    }

    /// Uploads the copied file to each object store that does not have it yet.
    pub(super) async fn upload(
        &self,
        to: &Destinations<'_>,
        output: &Output,
        content: &Content,
    ) -> Result<(), Trouble> {
        for Object { store, url } in &to.objects {
            let held = self.held.clone();
            let may_go_on = Arc::new(move || held.is_trusted());
            let uploading = self.worker.storage.upload(output, url, content, may_go_on);
            store.upload(self.held.id, uploading).await?;
        }
        Ok(())
    }

    /// Whether a file that is copied now can be uploaded. Stores that take no files are tried by one render only.
    pub(super) fn may_upload(&self, to: &Destinations<'_>) -> Result<(), Trouble> {
        to.objects.iter().try_for_each(|object| object.store.admit(self.held.id))
    }
}
