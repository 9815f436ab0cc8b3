//! The render settings, parsed and checked. All problems are reported at once.

use crate::commands::prelude::*;
use crate::config::Render;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use tidemill_domain::render::clock::Clocks;
use tidemill_domain::render::path_map::PathLine;
use tidemill_domain::render::polling::Polling;
use tidemill_domain::render::retry_rules::Patience;
use tidemill_domain::render::{AllowList, LocalPath, NodePath, PathMap, Policy, Targets};
use tidemill_domain::schedule::Zone;
use tidemill_engine::SystemClock;
use tidemill_engine::item::storage;
use tidemill_engine::render::{Places, RenderFiles, Storage};
use tidemill_nexrender::{Mount, NasStorage, Place, StorageOptions};

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) mount: LocalPath,
    /// Where files are published, as a path of this host.
    pub(crate) output: LocalPath,
    /// Where nodes write files, as a path of this host.
    pub(crate) staging: LocalPath,
    pub(crate) places: Places,
    pub(crate) targets: Targets,
    pub(crate) allow: AllowList,
    pub(crate) policy: Policy,
    pub(crate) clocks: Clocks,
    pub(crate) polling: Polling,
    pub(crate) zone: Zone,
    pub(crate) tags: Option<String>,
}

#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn add(&mut self, key: &str, why: impl Display) {
        self.0.push(format!("{key}: {why}"));
    }

    /// The value, or none after adding the error.
    fn kept<T>(&mut self, key: &str, read: Result<T, impl Display>) -> Option<T> {
        read.map_err(|why| self.add(key, why)).ok()
    }

    fn failure(self) -> Failure {
        let fix = "correct these settings; `tidemill config show --origin` shows where each one comes from";
        match self.0.as_slice() {
            [one] => Failure::new(Code::BadRenderSettings, one.clone(), fix),
            many => {
                let what = format!("{} render settings are wrong", many.len());
                Failure::new(Code::BadRenderSettings, what, fix).because(many.join("\n"))
            }
        }
    }
}

impl Setup {
    pub(crate) fn read(settings: &Render) -> Result<Self> {
        let mut faults = Faults::default();
        let folders = folders(settings, &mut faults);
        let places = folders.as_ref().and_then(|folders| places(settings, folders, &mut faults));
        let targets = targets(settings, &mut faults);
        let allow = allow(settings, &mut faults);
        let policy = policy(settings, &mut faults);
        let zone = zone(settings, &mut faults);
        let (Some(folders), Some(places), Some(policy), Some(zone), []) =
            (folders, places, policy, zone, faults.0.as_slice())
        else {
            return Err(faults.failure());
        };
        let Render {
            queue_timeout, stall_timeout, max_render_time, poll_interval, poll_interval_idle, ..
        } = *settings;
        let clocks = Clocks { queue_timeout, stall_timeout, max_render_time, ..Clocks::default() };
        let polling = Polling { default: poll_interval, idle: poll_interval_idle, ..Polling::default() };
        let Folders { mount, output, staging, .. } = folders;
        let tags = settings.tags.clone();
        Ok(Self { mount, output, staging, places, targets, allow, policy, clocks, polling, zone, tags })
    }

    /// Checks that nodes can write to the staging folder. Windows would take `/mnt/nas` for a folder of its own disk.
    pub(crate) fn check_nodes(&self) -> Result<()> {
        let windows = self.allow.template_folders.iter().find(|folder| folder.is_of_windows());
        let Some(folder) = windows.filter(|_| !self.places.staging.is_of_windows()) else { return Ok(()) };
        let mut faults = Faults::default();
        let staging = self.staging.to_string();
        let beside = staging.rsplit_once('/').map(|(beside, _)| beside).filter(|beside| !beside.is_empty());
        let beside = beside.unwrap_or(&staging);
        let why = format!(
            "nodes with templates in {folder} run Windows and cannot open {}; map that folder to a Windows path, \
             such as \\\\NAS\\{}={beside}",
            self.places.staging,
            beside.rsplit('/').next().unwrap_or_default(),
        );
        faults.add("render.paths", why);
        Err(faults.failure())
    }

    /// The NAS: where nodes write files, and where files are published.
    pub(crate) fn storage(&self, settings: &Render) -> StorageOptions {
        StorageOptions::new(self.place(&self.staging, settings), self.place(&self.output, settings))
    }

    fn place(&self, folder: &LocalPath, settings: &Render) -> Place {
        let is_below = settings.mount_check && folder.is_in(&self.mount);
        let mount = match &settings.mount_sentinel {
            // With a sentinel file, that file alone proves that the NAS is mounted.
            Some(name) if *folder == self.output => Mount::Sentinel(name.clone()),
            None if is_below => Mount::At(self.mount.clone()),
            _ => Mount::Local,
        };
        Place { folder: folder.clone(), mount }
    }

    /// The files of ended renders, for retention: one storage for each folder.
    pub(crate) fn files(&self, settings: &Render, clock: &Arc<SystemClock>) -> RenderFiles {
        let of = |folder: &LocalPath| -> Arc<dyn Storage> {
            let options =
                StorageOptions::new(self.place(folder, settings), self.place(&self.output, settings));
            Arc::new(NasStorage::new(options, clock.clone()))
        };
        let posters = of(self.places.posters.as_ref().unwrap_or(&self.staging));
        let (staging, films) = (of(&self.staging), of(&self.output));
        RenderFiles { places: self.places.clone(), staging, posters, films, targets: self.targets.clone() }
    }

    /// None on a host whose configuration does not have it: then workers check.
    pub(crate) fn allow_if_known(settings: &Render) -> Result<Option<AllowList>> {
        let mut faults = Faults::default();
        let allow = settings.template_folders.as_ref().map(|_| allow(settings, &mut faults));
        if faults.0.is_empty() { Ok(allow) } else { Err(faults.failure()) }
    }

    /// The same for targets.
    pub(crate) fn targets_if_known(settings: &Render) -> Result<Option<Targets>> {
        let mut faults = Faults::default();
        let known = settings.targets.as_ref().map(|_| targets(settings, &mut faults));
        if faults.0.is_empty() { Ok(known) } else { Err(faults.failure()) }
    }

    /// Only the folders of posters and of nodes' files; none when `render.mount` is not set or wrong.
    pub(crate) fn shown(settings: &Render) -> Option<(LocalPath, LocalPath)> {
        folders(settings, &mut Faults::default()).map(|folders| (folders.posters, folders.staging))
    }

    /// Only the folder above the output, which nodes have to see, too.
    pub(crate) fn shared(settings: &Render) -> Option<LocalPath> {
        folders(settings, &mut Faults::default()).map(|folders| folders.shared)
    }

    pub(crate) fn policy(settings: &Render) -> Result<Policy> {
        let mut faults = Faults::default();
        policy(settings, &mut faults).ok_or_else(|| faults.failure())
    }

    pub(crate) fn zone(settings: &Render) -> Result<Zone> {
        let mut faults = Faults::default();
        zone(settings, &mut faults).ok_or_else(|| faults.failure())
    }
}

struct Folders {
    mount: LocalPath,
    /// The folder above the output.
    shared: LocalPath,
    output: LocalPath,
    staging: LocalPath,
    posters: LocalPath,
}

fn folders(settings: &Render, faults: &mut Faults) -> Option<Folders> {
    let Some(mount) = &settings.mount else {
        faults.add("render.mount", "set it to the mount point of the NAS");
        return None;
    };
    let mount = faults.kept("render.mount", LocalPath::parse(mount))?;
    // Relative to the mount, with or without a leading slash.
    let parts: Vec<&str> = settings.output_folder.split('/').filter(|part| !part.is_empty()).collect();
    let below = |parts: &[&str]| parts.iter().try_fold(mount.clone(), |path, part| path.join(part));
    let output = faults.kept("render.output_folder", below(&parts))?;
    let beside = below(parts.split_last().map_or(&[], |(_, before)| before)).ok()?;
    let mut other = |key: &str, given: &Option<String>, name: &str| match given {
        Some(given) => faults.kept(key, LocalPath::parse(given)),
        None => beside.join(name).ok(),
    };
    let staging = other("render.staging_folder", &settings.staging_folder, ".staging");
    let posters = other("render.poster_folder", &settings.poster_folder, ".posters");
    Some(Folders { output, staging: staging?, posters: posters?, shared: beside, mount })
}

fn places(settings: &Render, folders: &Folders, faults: &mut Faults) -> Option<Places> {
    let lines = match &settings.paths {
        Some(text) => lines(text, faults),
        None => same(folders, faults),
    };
    let paths = faults.kept("render.paths", PathMap::new(lines))?;
    let staging = faults.kept("render.staging_folder", paths.to_node(&folders.staging));
    // Only shown to people, so the path of this host is good enough.
    let output = paths.to_node(&folders.output).or_else(|_| NodePath::parse(&folders.output.to_string()));
    let output = faults.kept("render.output_folder", output);
    let (posters, correction) = (Some(folders.posters.clone()), settings.correction);
    Some(Places { staging: staging?, output: output?, posters, paths, correction })
}

/// Parses `NODE=LOCAL;NODE=LOCAL`, where LOCAL begins as a path of this host. NODE may contain `=`.
fn lines(text: &str, faults: &mut Faults) -> Vec<PathLine> {
    let mut lines = Vec::new();
    for line in list(text, ';') {
        let mut halves = line.match_indices('=').map(|(at, _)| (&line[..at], &line[at + 1..]));
        let Some((node, local)) = halves.find(|(_, local)| LocalPath::begins(local)) else {
            let form = if cfg!(windows) { "NODE=LOCAL" } else { "NODE=/LOCAL" };
            faults.add("render.paths", format!("{line:?} does not have the form {form}"));
            continue;
        };
        let node = faults.kept("render.paths", NodePath::parse(node.trim()));
        let local = faults.kept("render.paths", LocalPath::parse(local.trim()));
        lines.extend(node.zip(local).map(|(node, local)| PathLine { node, local }));
    }
    lines
}

/// Without a map, nodes use the paths of this host.
fn same(folders: &Folders, faults: &mut Faults) -> Vec<PathLine> {
    let mut lines = Vec::new();
    let mut line = |local: &LocalPath| {
        if cfg!(windows) && !local.to_string().starts_with("\\\\") {
            let why = format!(
                "nodes may have another drive of that letter than {local}; map the folder, such as \\\\NAS\\broadcast={local}"
            );
            faults.add("render.paths", why);
        }
        let node = faults.kept("render.mount", NodePath::parse(&local.to_string()));
        lines.extend(node.map(|node| PathLine { node, local: local.clone() }));
    };
    line(&folders.mount);
    if !folders.staging.is_in(&folders.mount) {
        line(&folders.staging);
    }
    lines
}

fn allow(settings: &Render, faults: &mut Faults) -> AllowList {
    let mut paths = |key: &str, text: &Option<String>| -> Vec<NodePath> {
        let texts = text.iter().flat_map(|text| list(text, ';'));
        texts.filter_map(|text| faults.kept(key, NodePath::parse(text))).collect()
    };
    AllowList {
        template_folders: paths("render.template_folders", &settings.template_folders),
        asset_folders: paths("render.asset_folders", &settings.asset_folders),
        schemes: settings.schemes.iter().flat_map(|text| list(text, ',')).map(str::to_owned).collect(),
        modules: list(&settings.modules, ',').map(str::to_owned).collect(),
    }
}

fn zone(settings: &Render, faults: &mut Faults) -> Option<Zone> {
    faults.kept("render.zone", settings.zone.parse())
}

/// Parses `NAME=URL;NAME=URL`.
fn targets(settings: &Render, faults: &mut Faults) -> Targets {
    let mut targets = Targets::default();
    for target in settings.targets.iter().flat_map(|text| list(text, ';')) {
        let parts = target.split_once('=').map(|(name, url)| (name.trim(), url.trim()));
        match parts.filter(|(_, url)| storage::url(Path::new(url)).is_some()) {
            Some((name, url)) => {
                let _added = faults.kept("render.targets", targets.add(name, url));
            }
            None => {
                let schemes = storage::SCHEMES.join(", ");
                let why = format!("{target:?} does not have the form NAME=URL with a URL of {schemes}");
                faults.add("render.targets", why);
            }
        }
    }
    targets
}

fn policy(settings: &Render, faults: &mut Faults) -> Option<Policy> {
    let patience = Patience::new(Some(settings.retries), Some(settings.base_retry_delay));
    let patience = faults.kept("render.base_retry_delay", patience)?;
    Some(Policy { lease_for: settings.lease, ..Policy::new(patience) })
}

fn list(text: &str, separator: char) -> impl Iterator<Item = &str> {
    text.split(separator).map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, load};
    use std::time::Duration;

    fn settings(values: &[(&'static str, &str)]) -> Render {
        let sources = Sources {
            flags: values.iter().map(|(path, text)| (*path, "--test", (*text).to_owned())).collect(),
            environment: Vec::new(),
            config_file: None,
            working_folder: "/nowhere".into(),
            user_folder: None,
            system_file: "/nowhere/tidemill.toml".into(),
        };
        load(&sources).unwrap().settings.render
    }

    #[test]
    fn the_documents_settings_lead_to_its_places() {
        let setup = Setup::read(&settings(&[
            ("render.mount", "/mnt/nas"),
            ("render.output_folder", "/broadcast/output"),
            ("render.paths", "\\\\NAS\\broadcast=/mnt/nas/broadcast; D:\\output=/mnt/render01"),
            ("render.template_folders", "D:\\templates;\\\\NAS\\templates"),
            ("render.schemes", "https, http"),
            ("render.retries", "5"),
            ("render.zone", "Asia/Seoul"),
        ]))
        .unwrap();

        assert_eq!(setup.output.to_string(), "/mnt/nas/broadcast/output");
        assert_eq!(setup.staging.to_string(), "/mnt/nas/broadcast/.staging");
        assert_eq!(setup.places.staging.to_string(), "\\\\NAS\\broadcast\\.staging");
        assert_eq!(setup.places.output.to_string(), "\\\\NAS\\broadcast\\output");
        assert_eq!(setup.places.posters.unwrap().to_string(), "/mnt/nas/broadcast/.posters");
        assert_eq!((setup.allow.template_folders.len(), setup.allow.schemes.len()), (2, 2));
        assert_eq!((setup.policy.patience.retries, setup.policy.lease_for), (5, Duration::from_secs(7)));
        assert_eq!(setup.zone.name(), "Asia/Seoul");
    }

    #[test]
    fn without_a_map_nodes_see_what_this_host_sees() {
        let setup = Setup::read(&settings(&[
            ("render.mount", "/mnt/nas"),
            ("render.output_folder", "out"),
            ("render.staging_folder", "/srv/staging"),
        ]))
        .unwrap();

        assert_eq!(setup.places.staging.to_string(), "/srv/staging");
        assert_eq!(setup.places.output.to_string(), "/mnt/nas/out");
        assert_eq!(setup.places.posters.unwrap().to_string(), "/mnt/nas/.posters");
    }

    #[test]
    fn nodes_with_windows_have_to_have_a_name_for_the_nas() {
        let checked = |values: &[(&'static str, &str)]| Setup::read(&settings(values)).unwrap().check_nodes();
        let mount = ("render.mount", "/mnt/nas");
        let on_drive = ("render.template_folders", "/srv/templates; D:\\templates");

        let fault = checked(&[mount, on_drive]).unwrap_err().summary();

        for part in [
            "render.paths",
            "D:\\templates",
            "/mnt/nas/broadcast/.staging",
            "such as \\\\NAS\\broadcast=/mnt/nas/broadcast",
        ] {
            assert!(fault.contains(part), "{part}: {fault}");
        }
        // What it suggests makes the path that is meant, with no part twice.
        let suggested = fault.split("such as ").nth(1).unwrap().trim();
        let places = Setup::read(&settings(&[mount, on_drive, ("render.paths", suggested)])).unwrap().places;
        assert_eq!(places.staging.to_string(), "\\\\NAS\\broadcast\\.staging");
        assert!(checked(&[mount, on_drive, ("render.paths", "\\\\NAS\\all=/mnt/nas")]).is_ok());
        assert!(checked(&[mount, ("render.template_folders", "/srv/templates")]).is_ok());
        assert!(checked(&[mount, ("render.template_folders", "\\\\NAS\\templates")]).is_err());
    }

    #[test]
    fn targets_are_folders_of_object_stores() {
        let read = |text: &str| {
            let read = Setup::read(&settings(&[("render.mount", "/mnt/nas"), ("render.targets", text)]));
            read.map(|setup| setup.targets).map_err(|failure| failure.summary())
        };

        let known = read("archive = s3://films/main/; cold=az://old;").unwrap();
        assert_eq!(known.names().collect::<Vec<_>>(), ["archive", "cold"]);
        for bad in ["s3://films", "archive=/mnt/films", "archive=http://films/a", "nas=s3://films", "a=s3://"]
        {
            let why = read(bad).unwrap_err();
            assert!(why.contains("render.targets"), "{bad}: {why}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let wrong = |values: &[(&'static str, &str)]| Setup::read(&settings(values)).unwrap_err().summary();

        let all = wrong(&[
            ("render.mount", "/mnt/nas"),
            ("render.paths", "D:\\a;D:\\..=/mnt/nas"),
            ("render.template_folders", "templates"),
            ("render.zone", "Seoul"),
        ]);
        for part in ["render.paths: \"D:\\\\a\"", "contains ..", "render.template_folders", "render.zone"] {
            assert!(all.contains(part), "{part}: {all}");
        }
        assert!(wrong(&[]).contains("render.mount: set it"));
        assert!(wrong(&[("render.mount", "nas")]).contains("render.mount"));
        let outside = wrong(&[("render.mount", "/mnt/nas"), ("render.output_folder", "../secret")]);
        assert!(outside.contains("render.output_folder"), "{outside}");
        let unmapped = wrong(&[("render.mount", "/mnt/nas"), ("render.paths", "D:\\output=/mnt/render01")]);
        assert!(unmapped.contains("render.staging_folder: no line of the path map"), "{unmapped}");
        assert!(wrong(&[("render.mount", "/a"), ("render.paths", "D:\\=/a;d:\\=/b")]).contains("twice"));
    }

    fn mounts(values: &[(&'static str, &str)]) -> (Mount, Mount) {
        let settings = settings(values);
        let options = Setup::read(&settings).unwrap().storage(&settings);
        (options.staging.mount, options.output.mount)
    }

    #[test]
    fn a_nas_is_known_by_its_mount_or_by_a_file_and_never_needs_both() {
        let mount = ("render.mount", "/mnt/nas");
        let at = Mount::At(LocalPath::parse("/mnt/nas").unwrap());
        let sentinel = Mount::Sentinel("this-is-the-nas".to_owned());

        assert_eq!(mounts(&[mount]), (at.clone(), at.clone()));
        assert_eq!(mounts(&[mount, ("render.staging_folder", "/srv/staging")]), (Mount::Local, at));
        assert_eq!(mounts(&[mount, ("render.mount_check", "false")]), (Mount::Local, Mount::Local));
        let by_file = mounts(&[mount, ("render.mount_sentinel", "this-is-the-nas")]);
        assert_eq!(by_file, (Mount::Local, sentinel));
    }
}
