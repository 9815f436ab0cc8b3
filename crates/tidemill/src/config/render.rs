//! The settings of renders: `[render]`, and its sections `[render.keys.NAME]`.

use super::choice::{Events, RenderDialect};
use super::error::ConfigError;
use super::key;
use super::layer::Given;
use super::load::SectionValue;
use super::secret::Secret;
use super::section::RENDER_KEYS;
use super::settings::Values;
use super::sources::Sources;
use super::table::{Entry, entry, first_origin, names, refuse, secret, shown};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;
use std::time::Duration;

/// How renders are made. What of it is a path or a list is read when somebody needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Render {
    /// Where nexrender is; a server has no render worker without it. Hidden, because it may hold a password.
    pub url: Option<Secret>,
    pub secret: Option<Secret>,
    pub dialect: RenderDialect,
    /// What the worker calls itself.
    pub worker: Option<String>,
    /// Most renders at once.
    pub capacity: u32,
    pub pool: Option<String>,
    /// Units of it that one render needs.
    pub pool_units: u32,
    /// Where the NAS is mounted.
    pub mount: Option<String>,
    /// Whether it has to be mounted.
    pub mount_check: bool,
    /// The file by which it is known instead.
    pub mount_sentinel: Option<String>,
    /// The folder of published files, below the mount.
    pub output_folder: String,
    /// Where nodes leave their files, as this host sees it.
    pub staging_folder: Option<String>,
    /// Where pictures out of files go.
    pub poster_folder: Option<String>,
    /// What nodes call folders of this host.
    pub paths: Option<String>,
    /// Where templates lie, as nodes see it.
    pub template_folders: Option<String>,
    /// Where else images lie, as nodes see it.
    pub asset_folders: Option<String>,
    /// With what addresses of images may begin.
    pub schemes: Option<String>,
    /// Which modules of nexrender jobs may use.
    pub modules: String,
    pub tags: Option<String>,
    /// The zone of broadcast dates.
    pub zone: String,
    /// How long a silent worker keeps its renders.
    pub lease: Duration,
    /// How often a render is tried again.
    pub retries: u32,
    /// How long it waits the first time.
    pub base_retry_delay: Duration,
    pub poll_interval: Duration,
    /// Pause of a worker that finds nothing.
    pub poll_interval_idle: Duration,
    /// How long a node may take.
    pub max_render_time: Duration,
    /// How long nothing may be heard.
    pub stall_timeout: Duration,
    /// How long a job may wait for a node.
    pub queue_timeout: Option<Duration>,
    /// The program that looks at files.
    pub ffprobe: String,
    /// The program that decodes files.
    pub ffmpeg: String,
    /// Whether the ends of renders become events.
    pub events: Events,
    pub current_key: Option<String>,
    pub keys: Vec<RenderKey>,
}

/// A key with which the data of renders is encrypted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RenderKey {
    /// Its name, which stands beside what is encrypted with it.
    pub name: String,
    /// Its text, which was found to be 32 bytes.
    secret: Secret,
}

impl RenderKey {
    /// The key itself. Whoever calls this answers for where it goes.
    pub fn expose(&self) -> [u8; 32] {
        bytes(self.secret.expose()).expect("it was checked when it was read")
    }
}

/// 32 bytes, in base64 or as hexadecimal digits.
fn bytes(text: &str) -> Option<[u8; 32]> {
    if text.len() == 64 {
        let mut key = [0; 32];
        for (index, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        return Some(key);
    }
    STANDARD.decode(text).ok()?.try_into().ok()
}

impl Render {
    pub(super) fn read(values: &Values, keys: Vec<RenderKey>) -> Self {
        Self {
            url: values.optional_secret(&key::RENDER_URL),
            secret: values.optional_secret(&key::RENDER_SECRET),
            dialect: values.choice(&key::RENDER_DIALECT),
            worker: values.optional_text(&key::RENDER_WORKER),
            capacity: values.number(&key::RENDER_CAPACITY),
            pool: values.optional_text(&key::RENDER_POOL),
            pool_units: values.number(&key::RENDER_POOL_UNITS),
            mount: values.optional_text(&key::RENDER_MOUNT),
            mount_check: values.truth(&key::RENDER_MOUNT_CHECK),
            mount_sentinel: values.optional_text(&key::RENDER_MOUNT_SENTINEL),
            output_folder: values.text(&key::RENDER_OUTPUT_FOLDER),
            staging_folder: values.optional_text(&key::RENDER_STAGING_FOLDER),
            poster_folder: values.optional_text(&key::RENDER_POSTER_FOLDER),
            paths: values.optional_text(&key::RENDER_PATHS),
            template_folders: values.optional_text(&key::RENDER_TEMPLATE_FOLDERS),
            asset_folders: values.optional_text(&key::RENDER_ASSET_FOLDERS),
            schemes: values.optional_text(&key::RENDER_SCHEMES),
            modules: values.text(&key::RENDER_MODULES),
            tags: values.optional_text(&key::RENDER_TAGS),
            zone: values.text(&key::RENDER_ZONE),
            lease: values.duration(&key::RENDER_LEASE),
            retries: values.number(&key::RENDER_RETRIES),
            base_retry_delay: values.duration(&key::RENDER_BASE_RETRY_DELAY),
            poll_interval: values.duration(&key::RENDER_POLL_INTERVAL),
            poll_interval_idle: values.duration(&key::RENDER_POLL_INTERVAL_IDLE),
            max_render_time: values.duration(&key::RENDER_MAX_RENDER_TIME),
            stall_timeout: values.duration(&key::RENDER_STALL_TIMEOUT),
            queue_timeout: values.optional_duration(&key::RENDER_QUEUE_TIMEOUT),
            ffprobe: values.text(&key::RENDER_FFPROBE),
            ffmpeg: values.text(&key::RENDER_FFMPEG),
            events: values.choice(&key::RENDER_EVENTS),
            current_key: values.optional_text(&key::RENDER_CURRENT_KEY),
            keys,
        }
    }
}

/// The keys, and each value as it is shown; what is wrong is added to `problems`.
pub(super) fn settle(
    given: &BTreeMap<String, Given>,
    sources: &Sources,
    problems: &mut Vec<ConfigError>,
) -> (Vec<RenderKey>, Vec<SectionValue>) {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for name in names(&RENDER_KEYS, given) {
        let Some(entry) = entry(&RENDER_KEYS, &name, Entry::new(), given, sources, problems) else {
            continue;
        };
        match secret(&entry, "secret").filter(|secret| bytes(secret.expose()).is_some()) {
            Some(secret) => {
                values.extend(shown(&RENDER_KEYS, &name, &entry));
                keys.push(RenderKey { name, secret });
            }
            None => problems.push(refuse(
                format!("{}.{name}.secret", RENDER_KEYS.path),
                &first_origin(&RENDER_KEYS, &name, given),
                None,
                "a key is 32 bytes, in base64 or as 64 hexadecimal digits, and this is something else"
                    .to_owned(),
                "make one with `openssl rand -base64 32`, and name its place: \"env:NAME\" or \"file:/path\""
                    .to_owned(),
            )),
        }
    }
    (keys, values)
}
