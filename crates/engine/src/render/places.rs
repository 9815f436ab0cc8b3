//! Where the files of a render are: at its node, published, and its poster.

use std::fmt;
use tidemill_domain::render::output::{Correction, Output, Source, staged_for, staging_name};
use tidemill_domain::render::path_map::NoPath;
use tidemill_domain::render::{BroadcastDate, Failure, LocalPath, NodePath, PathMap, RenderId, Trouble, Uid};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// Where nodes write their files, as nodes see it.
    pub staging: NodePath,
    /// Where files are published, as people and playout see it.
    pub output: NodePath,
    /// Where posters are kept, as this host sees it; without it none are made.
    pub posters: Option<LocalPath>,
    /// Maps folders of nodes to folders of this host.
    pub paths: PathMap,
    /// For files of renders that are rendered again.
    pub correction: Correction,
}

/// A file written by a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Staged {
    pub node: NodePath,
    /// As this host sees it.
    pub local: LocalPath,
}

impl Places {
    /// Where the node writes the file of a job.
    pub fn staged(&self, uid: Uid, queue: &str, extension: &str) -> Result<Staged, Trouble> {
        let name = staging_name(uid, queue, extension);
        let node = self.staging.join(&name).map_err(|bad| unusable(&bad))?;
        self.staged_at(node)
    }

    /// [`staged`](Self::staged) for a recorded path; none if nodes write elsewhere now, so that it is out of reach.
    pub fn kept(&self, path: &str) -> Result<Option<Staged>, Trouble> {
        let staging = self.staged_at(self.staging.clone())?.local;
        let staged = NodePath::parse(path).ok().and_then(|node| self.staged_at(node).ok());
        Ok(staged.filter(|staged| staged.local.is_in(&staging) && staged.local != staging))
    }

    fn staged_at(&self, node: NodePath) -> Result<Staged, Trouble> {
        let local = self.paths.to_local(&node).map_err(|no_path| match no_path {
            NoPath::NotMapped { .. } => Trouble::new(Failure::PathNotMapped, &no_path.to_string()),
            NoPath::Bad(bad) => unusable(&bad),
        })?;
        Ok(Staged { node, local })
    }

    /// The names under which the file of a job is published.
    pub fn output(
        &self,
        uid: Uid,
        revision: u32,
        composition: &str,
        extension: &str,
        date: BroadcastDate,
    ) -> Output {
        let (folder, correction) = (&self.output.to_string(), self.correction);
        Output::of(Source { uid, composition, extension, date, folder, revision, correction })
    }

    /// The published file, as people and playout open it.
    pub fn published(&self, output: &Output) -> Result<NodePath, Trouble> {
        self.beside(output, &output.name)
    }

    /// Where the file before is after that, if it was in the way.
    pub fn kept_aside(&self, output: &Output) -> Result<Option<NodePath>, Trouble> {
        output.kept.as_ref().map(|name| self.beside(output, name)).transpose()
    }

    fn beside(&self, output: &Output, name: &str) -> Result<NodePath, Trouble> {
        let folder = self.output.join(&output.folder).map_err(|bad| unusable(&bad))?;
        folder.join(name).map_err(|bad| unusable(&bad))
    }

    /// None if no posters are made.
    pub fn poster(&self, staged: &Staged) -> Option<LocalPath> {
        let (name, _) = staged.node.file_name()?.rsplit_once('.')?;
        self.posters.as_ref()?.join(&format!("{name}.jpg")).ok()
    }

    /// A path that was noted for people, as this host sees it.
    pub fn local(&self, noted: &str) -> Option<LocalPath> {
        let node = NodePath::parse(noted).ok();
        node.and_then(|node| self.paths.to_local(&node).ok()).or_else(|| LocalPath::parse(noted).ok())
    }

    /// Whether files of nodes can be found here at all.
    pub fn check(&self) -> Result<(), Trouble> {
        self.staged_at(self.staging.clone()).map(drop)
    }
}

/// The file of a render that waits for approval, in the folder of nodes' files on this host. Only the name is taken from what
/// was noted, and only a name that Tidemill gives to the file of this job.
pub fn noted_clip(staging: &LocalPath, job: Uid, noted: &str) -> Option<LocalPath> {
    let name = noted.rsplit(['/', '\\']).next()?;
    staging.join(name).ok().filter(|_| staged_for(name) == Some(job))
}

/// The poster of a render, in the folder of posters on this host. Of what was noted, only a name that Tidemill gives to a poster
/// of this render counts: the worker may see the folder at another path, and anyone who can write the database could note any.
pub fn noted_poster(folder: &LocalPath, render: RenderId, noted: &str) -> Option<LocalPath> {
    let name = noted.rsplit(['/', '\\']).next().filter(|name| name.ends_with(".jpg"))?;
    staged_for(name).filter(|uid| uid.render() == render)?;
    folder.join(name).ok()
}

fn unusable(bad: &dyn fmt::Display) -> Trouble {
    Trouble::new(Failure::PathNotMapped, &bad.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::lease::Epoch;
    use tidemill_domain::render::path_map::PathLine;

    fn places() -> Places {
        let line = PathLine {
            node: NodePath::parse("\\\\NAS\\broadcast").unwrap(),
            local: LocalPath::parse("/mnt/nas").unwrap(),
        };
        Places {
            staging: NodePath::parse("\\\\NAS\\broadcast\\.staging").unwrap(),
            output: NodePath::parse("\\\\NAS\\broadcast\\output").unwrap(),
            posters: Some(LocalPath::parse("/mnt/nas/.posters").unwrap()),
            paths: PathMap::new(vec![line]).unwrap(),
            correction: Correction::Replace,
        }
    }

    #[test]
    fn a_file_has_a_place_on_the_node_here_and_on_the_nas() {
        let uid = Uid::new(RenderId::new(7), Epoch::new(2));

        let staged = places().staged(uid, "ab", "mp4").unwrap();
        let output = places().output(uid, 2, "Mini", "mp4", "2026-11-15".parse().unwrap());

        assert_eq!(staged.node.to_string(), "\\\\NAS\\broadcast\\.staging\\rq-7-2.ab.mp4");
        assert_eq!(staged.local.to_string(), "/mnt/nas/.staging/rq-7-2.ab.mp4");
        let published = places().published(&output).unwrap();
        assert_eq!(published.to_string(), "\\\\NAS\\broadcast\\output\\2026-11-15\\Mini_7.mp4");
        let kept = places().kept_aside(&output).unwrap().unwrap();
        assert_eq!(kept.to_string(), "\\\\NAS\\broadcast\\output\\2026-11-15\\Mini_7_r1.mp4");
        assert_eq!(places().poster(&staged).unwrap().to_string(), "/mnt/nas/.posters/rq-7-2.ab.jpg");
    }

    #[test]
    fn a_path_that_was_written_down_counts_only_where_nodes_leave_their_files_now() {
        let kept = |path: &str| places().kept(path).unwrap().map(|staged| staged.local.to_string());

        let here = kept("\\\\nas\\Broadcast\\.staging\\rq-7-2.mp4");
        assert_eq!(here.as_deref(), Some("/mnt/nas/.staging/rq-7-2.mp4"));
        for elsewhere in [
            "\\\\NAS\\broadcast\\old\\rq-7-2.mp4",
            "\\\\NAS\\broadcast\\.staging",
            "D:\\out\\rq-7-2.mp4",
            "rq-7-2.mp4",
        ] {
            assert_eq!(kept(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn a_clip_has_the_name_of_its_own_job() {
        let (staging, uid) =
            (LocalPath::parse("/nas/.staging").unwrap(), Uid::new(RenderId::new(7), Epoch::new(2)));
        let clip = |noted: &str| noted_clip(&staging, uid, noted).map(|clip| clip.to_string());

        for noted in ["\\\\NAS\\.staging\\rq-7-2.ab.mp4", "/elsewhere/rq-7-2.ab.mp4", "rq-7-2.ab.mp4"] {
            assert_eq!(clip(noted).as_deref(), Some("/nas/.staging/rq-7-2.ab.mp4"), "{noted}");
        }
        for foreign in ["/etc/passwd", "rq-7-1.ab.mp4", "rq-17-2.mp4", "rq-7-2", "..", "rq-7-2.mp4/..", ""] {
            assert_eq!(clip(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_folder_that_is_not_mapped_is_a_fault_of_the_configuration() {
        let places = Places { staging: NodePath::parse("D:\\out").unwrap(), ..places() };

        assert_eq!(places.check().unwrap_err().failure, Failure::PathNotMapped);
    }
}
