//! Retention of renders, on request or every hour: rows with their attempts, pictures and files of nodes. Published files go only
//! if they are asked for.
//!
//! The files of a render go before its row, so nothing is left that nobody knows of if the process dies in between. Of several
//! servers, the one that holds the lease `purge/renders` does the work.

use super::Storage;
use super::places::{Places, noted_poster};
use crate::item::storage::url;
use crate::{EngineError, HeldLease, Leader, Process, Service, begin_under, until_lost};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::lease::LeaseKey;
use tidemill_domain::render::output::{all_published, is_of_queue};
use tidemill_domain::render::retention::{Films, Kept, Retention};
use tidemill_domain::render::{Failure, LocalPath, Targets, Trouble, Uid};
use tidemill_domain::words::plural;
use tidemill_store::Store;
use tidemill_store::render::RenderRecord;

const BATCH: u32 = 100;

const PAUSE: Duration = Duration::from_secs(3600);

const LEASE_PAUSE: Duration = Duration::from_secs(60);

/// Younger files may still be written.
const FILES_AGE: Duration = Duration::from_secs(24 * 3600);

/// The audited object: all renders.
const OBJECT: &str = "render/*";

/// The files of renders on this host. Each storage removes files below its own folder only.
#[derive(Clone, Debug)]
pub struct RenderFiles {
    pub places: Places,
    pub staging: Arc<dyn Storage>,
    pub posters: Arc<dyn Storage>,
    pub films: Arc<dyn Storage>,
    /// Objects elsewhere stay.
    pub targets: Targets,
}

#[derive(Clone, Copy, Debug)]
pub struct RenderPurge<'a> {
    pub store: &'a Store,
    pub retention: Retention,
    /// None on a host without the NAS: then only rows go.
    pub files: Option<&'a RenderFiles>,
    pub actor: &'a Actor,
    /// Counts, and changes nothing.
    pub is_dry: bool,
}

/// What was deleted, or would be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RenderPurgeReport {
    pub renders: u64,
    /// Of published files.
    pub bytes: u64,
    /// Files that no render has any more.
    pub orphans: u64,
    pub kept: BTreeMap<Kept, u64>,
    /// Files that could not be deleted.
    pub troubles: Vec<String>,
}

impl RenderPurge<'_> {
    pub async fn run(&self) -> Result<RenderPurgeReport, EngineError> {
        self.run_under(None).await
    }

    async fn run_under(&self, lease: Option<&HeldLease>) -> Result<RenderPurgeReport, EngineError> {
        let mut report = RenderPurgeReport::default();
        // Before the rows, so that a dry run counts the same files.
        if let Some(files) = self.files {
            self.sweep(files, &mut report).await?;
        }
        let mut walk = self.store.read().await?.renders().begin_purge(self.retention).await?;
        loop {
            let share = self.store.read().await?.renders().purge_share(&mut walk, BATCH).await?;
            for (why, count) in share.kept {
                *report.kept.entry(why).or_default() += count;
            }
            if self.is_dry {
                share.going.iter().for_each(|record| self.count(record, &mut report));
            } else if !share.going.is_empty() {
                self.delete(&share.going, lease, &mut report).await?;
            }
            if share.is_last {
                break;
            }
        }
        Ok(report)
    }

    fn count(&self, record: &RenderRecord, report: &mut RenderPurgeReport) {
        report.renders += 1;
        if !self.films(record, record.output_path.as_deref()).is_empty() {
            report.bytes += record.output_bytes.unwrap_or(0);
        }
    }

    /// The published files that go with this one; none if they stay.
    fn films(&self, record: &RenderRecord, path: Option<&str>) -> Vec<String> {
        let path = path.filter(|_| matches!(self.retention.films, Films::Delete { .. }));
        path.map(|path| all_published(path, record.id(), record.output_revision)).unwrap_or_default()
    }

    async fn delete(
        &self,
        going: &[RenderRecord],
        lease: Option<&HeldLease>,
        report: &mut RenderPurgeReport,
    ) -> Result<(), EngineError> {
        // Before any file goes: tables of other programs may refer to the rows, or a role may not delete them.
        let mut trial = begin_under(lease, self.store).await?;
        trial.renders().purge(&going.iter().collect::<Vec<_>>()).await?;
        trial.rollback().await?;
        let mut ready = Vec::with_capacity(going.len());
        for record in going {
            // Deleting files takes a while, in which somebody may want the render again.
            let current = self.store.read().await?.renders().find(record.id()).await?;
            if current.as_ref() != Some(record) {
                *report.kept.entry(Kept::Changed).or_default() += 1;
                continue;
            }
            match self.delete_files(record).await {
                Ok(()) => ready.push(record),
                Err(trouble) => {
                    report.troubles.push(format!("render {}: {}", record.id(), trouble.message));
                    *report.kept.entry(Kept::FilesLeft).or_default() += 1;
                }
            }
        }
        let mut tx = begin_under(lease, self.store).await?;
        let gone = tx.renders().purge(&ready).await?;
        if !gone.is_empty() {
            let count = plural(gone.len() as u64, "render", "renders");
            let entry = AuditEntry::new(self.actor.clone(), "render.delete", OBJECT).because(&count);
            tx.audit().record(&entry).await?;
        }
        tx.commit().await?;
        for record in ready {
            if gone.contains(&record.id()) {
                self.count(record, report);
            } else {
                *report.kept.entry(Kept::Changed).or_default() += 1;
            }
        }
        Ok(())
    }

    async fn delete_files(&self, record: &RenderRecord) -> Result<(), Trouble> {
        let Some(RenderFiles { places, staging, posters, films, targets }) = self.files else {
            return Ok(());
        };
        // Nothing goes if one of them cannot be found.
        let published = self.published(record, places)?;
        if let Some(path) = &record.staged_path
            && let Some(staged) = places.kept(path)?
        {
            staging.discard(&staged.local).await?;
        }
        if let (Some(folder), Some(noted)) = (&places.posters, &record.poster_path)
            && let Some(poster) = noted_poster(folder, record.id(), noted)
        {
            posters.discard(&poster).await?;
        }
        for film in &published {
            films.discard(film).await?;
        }
        let noted = record.output_objects.iter().flat_map(|urls| urls.lines());
        let objects: BTreeSet<String> = noted.flat_map(|object| self.films(record, Some(object))).collect();
        for object in objects.iter().filter(|object| targets.have(object)) {
            films.discard_object(object).await?;
        }
        Ok(())
    }

    /// The published files on the NAS that go with this render, as this host sees them.
    fn published(&self, record: &RenderRecord, places: &Places) -> Result<Vec<LocalPath>, Trouble> {
        let noted = [&record.output_path, &record.previous_output_path].into_iter();
        let films = noted.flat_map(|path| self.films(record, path.as_deref()));
        // A render that is not published on the NAS has the URL of an object here.
        let films = films.filter(|film| url(Path::new(film)).is_none());
        let place = |film: String| {
            places.local(&film).ok_or_else(|| {
                let why = format!("no line of the path map covers {film}; add one to render.paths");
                Trouble::new(Failure::PathNotMapped, &why)
            })
        };
        films.map(place).collect()
    }

    /// Files of nodes and pictures that no render has any more. A NAS that is away does not undo the rest.
    async fn sweep(&self, files: &RenderFiles, report: &mut RenderPurgeReport) -> Result<(), EngineError> {
        let queue = self.store.read().await?.renders().queue().await?;
        for (storage, is_poster) in [(&files.staging, false), (&files.posters, true)] {
            let left = match storage.left(FILES_AGE).await {
                Ok(left) => left,
                // Without the folder there are no pictures.
                Err(_) if is_poster => continue,
                Err(trouble) => {
                    report.troubles.push(trouble.message);
                    continue;
                }
            };
            for (uid, file) in left {
                if !self.is_orphan(uid, &file, is_poster, &queue).await? {
                    continue;
                }
                let removed = if self.is_dry { Ok(()) } else { storage.discard(&file).await };
                match removed {
                    Ok(()) => report.orphans += 1,
                    Err(trouble) => report.troubles.push(trouble.message),
                }
            }
        }
        Ok(())
    }

    /// A file of an unknown render may belong to another queue, unless its name says that it is ours.
    async fn is_orphan(
        &self,
        uid: Uid,
        file: &LocalPath,
        is_poster: bool,
        queue: &str,
    ) -> Result<bool, EngineError> {
        let path = file.to_string();
        let name = path.rsplit('/').next().unwrap_or_default();
        if !is_of_queue(name, queue) {
            return Ok(false);
        }
        let record = self.store.read().await?.renders().find(uid.render()).await?;
        Ok(record.is_none_or(|record| {
            // Another host may have its NAS elsewhere.
            let noted = record.poster_path.as_deref().and_then(|noted| noted.rsplit('/').next());
            let is_shown = is_poster && noted == Some(name);
            !is_shown && !record.render.needs_file_of(uid.epoch())
        }))
    }
}

/// Purges every hour, on the server that holds the lease, until `process` ends.
pub async fn run(process: Process, older_than: Duration, files: Option<RenderFiles>) {
    let key = LeaseKey::new("purge", "renders").expect("kind and name are short and plain");
    let mut leader = Leader::new(&process, key, LEASE_PAUSE);
    while let Some(lease) = leader.lease().await {
        let retention = Retention { older_than, films: Films::Keep };
        lease.while_held(keep(process.store(), &lease, retention, files.as_ref())).await;
    }
}

async fn keep(store: &Store, lease: &HeldLease, retention: Retention, files: Option<&RenderFiles>) {
    let actor = Actor::system();
    let purge = RenderPurge { store, retention, files, actor: &actor, is_dry: false };
    let mut service = Service::new("forgetting old renders", PAUSE);
    while service.is_due().await {
        let done = purge.run_under(Some(lease)).await.map(
            |RenderPurgeReport { renders, orphans, troubles, .. }| {
                if renders + orphans > 0 {
                    tracing::info!(
                        "deleted {} and {} without a render",
                        plural(renders, "old render", "old renders"),
                        plural(orphans, "file", "files")
                    );
                }
                if let Some(first) = troubles.first() {
                    tracing::warn!(
                        "files of {} could not be deleted: {first}",
                        plural(troubles.len() as u64, "old render", "old renders")
                    );
                }
            },
        );
        service.ended(until_lost(done));
    }
}
