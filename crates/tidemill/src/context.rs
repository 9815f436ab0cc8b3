//! The context of a command: settings, jobs, database and output.

use crate::config::{
    self, Events, IssuerKey, IssuerSettings, Loaded, LogLevel, Origin, Output, Settings, Sources,
};
use crate::declared::{Definitions, JobFolder};
use crate::output::{Listing, print_view};
use crate::report::{Failure, Result, printable};
use crate::system;
use serde::Serialize;
use std::io::Write;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidemill_api::View;
use tidemill_domain::alert::notify::Notify;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::outbox::LifecycleEvents;
use tidemill_domain::pool::PoolName;
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::process::Identity;
use tidemill_engine::ProcessOptions;
use tidemill_engine::job::LogFolder;
use tidemill_engine::pool::PoolOptions;
use tidemill_server::access::jwt::Issuer;
use tidemill_store::pool::ViewName;
use tidemill_store::render::Keys;
use tidemill_store::{DatabaseUrl, Store, StoreOptions, Tx};

/// How long the connections of a command may take to close.
const CLOSING: Duration = Duration::from_secs(2);

/// PostgreSQL ends a transaction that is idle for longer.
const IDLE_MAX: Duration = Duration::from_secs(7);

/// Name of the folder for the output of steps, if no other is configured.
const LOG_FOLDER: &str = "tidemill-logs";

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) loaded: Loaded,
    /// The jobs of this program, and those of the job files if the command needs them.
    pub(crate) definitions: Definitions,
    /// None if no folder is configured, or the command needs no jobs.
    pub(crate) job_folder: Option<Arc<JobFolder>>,
    pub(crate) program: String,
    /// Stores to close at the end.
    stores: Mutex<Vec<Store>>,
}

impl Context {
    pub(crate) fn new(
        loaded: Loaded,
        definitions: Definitions,
        job_folder: Option<JobFolder>,
        program: &Path,
    ) -> Self {
        let program =
            program.file_name().map_or_else(|| "tidemill".into(), |name| name.to_string_lossy().into());
        let job_folder = job_folder.map(Arc::new);
        Self { loaded, definitions, job_folder, program, stores: Mutex::default() }
    }

    /// The same program without configuration and without jobs, except for its log level and what the demo sets. Paths
    /// are relative to `folder`.
    #[cfg_attr(windows, expect(dead_code, reason = "there is no demo for Windows"))]
    pub(crate) fn for_demo(
        &self,
        folder: &Path,
        set: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<Self> {
        let level = ("log.level", self.settings().log.level.as_str().to_owned());
        let set = set.into_iter().chain([level]);
        let mut loaded = config::load(&Sources {
            flags: set.map(|(key, value)| (key, "demo", value)).collect(),
            environment: Vec::new(),
            config_file: None,
            working_folder: folder.to_owned(),
            user_folder: None,
            system_file: folder.join("system.toml"),
        })?;
        for value in &mut loaded.values {
            let own = self.loaded.values.iter().find(|own| own.path == value.path && own.path == "log.level");
            if let Some(own) = own {
                value.origin = own.origin.clone();
            } else if matches!(value.origin, Origin::Flag(_)) {
                value.origin = Origin::Demo;
            }
        }
        Ok(Self::new(loaded, Definitions::default(), None, Path::new(&self.program)))
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.loaded.settings
    }

    pub(crate) fn output(&self) -> Output {
        self.loaded.settings.output
    }

    /// Prints a note to standard error, unless `--quiet` is given.
    pub(crate) fn note(&self, text: &str) {
        if self.settings().log.level != LogLevel::Error {
            let _ignored = writeln!(anstream::stderr(), "{}", printable(text));
        }
    }

    /// Prints a note, and ends the command with success.
    pub(crate) fn done(&self, text: &str) -> Result<Exit> {
        self.note(text);
        Ok(Exit::Ok)
    }

    pub(crate) fn warn_of_invalid_files(&self) {
        self.definitions.warnings().for_each(|warning| self.note(&format!("warning: {warning}")));
    }

    /// Prints records as their view `V`: a table has the columns that `columns` names, separated by
    /// spaces; the other formats have every field.
    pub(crate) fn print_list<V: View + From<R>, R>(
        &self,
        schema: &'static str,
        when_empty: &'static str,
        records: impl IntoIterator<Item = R>,
        columns: &'static str,
    ) -> Result<Exit> {
        self.print_page::<V, R>(schema, when_empty, records, columns, u32::MAX, "")
    }

    /// The same for a list with `--limit`. Read one record more than `limit`: it tells whether to say that more exist, and
    /// how to see them. `next` is the flag for the next page; empty if there is none.
    pub(crate) fn print_page<V: View + From<R>, R>(
        &self,
        schema: &'static str,
        when_empty: &'static str,
        records: impl IntoIterator<Item = R>,
        columns: &'static str,
        limit: u32,
        next: &str,
    ) -> Result<Exit> {
        let views = records.into_iter().map(V::from);
        let mut listing = Listing::of_views(schema, when_empty, views, columns);
        let rest = listing.cut(limit, next);
        listing.print(self.output())?;
        rest.into_iter().for_each(|rest| self.note(&rest));
        Ok(Exit::Ok)
    }

    pub(crate) fn print_one(&self, schema: &'static str, view: &impl Serialize) -> Result<Exit> {
        print_view(schema, view, self.output())
    }

    pub(crate) fn database_url(&self) -> Result<DatabaseUrl> {
        Ok(self.settings().database.url.expose().parse()?)
    }

    /// The folder for the output of command and Spark steps of this database.
    pub(crate) fn log_folder(&self) -> Result<LogFolder, Failure> {
        let url = self.database_url()?;
        let root = match (&self.settings().jobs.log_dir, url.file()) {
            (Some(folder), _) => folder.clone(),
            (None, Some(file)) => file.with_file_name(LOG_FOLDER),
            (None, None) => PathBuf::from(LOG_FOLDER),
        };
        // Several databases may share the folder.
        let path = root.join(url.path_name());
        let path = std::path::absolute(&path).unwrap_or(path);
        Ok(LogFolder::new(path, self.identity().host))
    }

    /// Opens the store, and migrates or checks its schema.
    pub(crate) async fn store(&self) -> Result<Store> {
        let store = self.bare_store().await?;
        store.initialise(self.settings().database.init).await?;
        Ok(store)
    }

    pub(crate) async fn read(&self) -> Result<Tx> {
        Ok(self.store().await?.read().await?)
    }

    pub(crate) async fn begin(&self) -> Result<Tx> {
        Ok(self.store().await?.begin().await?)
    }

    /// Opens the store without checking its schema.
    pub(crate) async fn bare_store(&self) -> Result<Store> {
        let store = Store::open(self.database_url()?, &self.store_options()?).await?;
        self.stores.lock().unwrap_or_else(PoisonError::into_inner).push(store.clone());
        Ok(store)
    }

    /// Closes the stores that the command has opened, unless something that still runs keeps a connection.
    pub(crate) async fn close(&self) {
        let stores = std::mem::take(&mut *self.stores.lock().unwrap_or_else(PoisonError::into_inner));
        for store in stores {
            let _still_in_use = tokio::time::timeout(CLOSING, store.close()).await;
        }
    }

    fn store_options(&self) -> Result<StoreOptions> {
        let database = &self.settings().database;
        Ok(StoreOptions {
            max_connections: database.max_connections,
            connect_timeout: database.connect_timeout,
            busy_timeout: database.busy_timeout,
            // A frozen process must not hold up others for longer than its lease.
            idle_in_transaction: self.lease().min(IDLE_MAX),
            synchronous: database.sqlite_synchronous,
            pooler: database.pooler,
            password: database.password.as_ref().map(|secret| secret.expose().to_owned()),
            lifecycle_events: self.lifecycle_events()?,
            render_notify: self.render_notify()?,
            render_keys: self.render_keys()?,
            clock: None,
        })
    }

    /// Which changes of jobs, pools and renders become events.
    fn lifecycle_events(&self) -> Result<LifecycleEvents> {
        let settings = self.settings();
        let mut events = LifecycleEvents::new(&settings.outbox.events_topic).map_err(|bad| {
            Failure::new(Code::BadValue, format!("outbox.events_topic: {bad}"), "set it to another topic")
        })?;
        if settings.jobs.events == Events::On {
            events = events.of_jobs();
        }
        if settings.pools.events == Events::On {
            events = events.of_pools();
        }
        if settings.render.events == Events::On {
            events = events.of_renders();
        }
        Ok(events)
    }

    /// Who hears of the ends of renders. The tables of the channels may be on the servers only, which deliver.
    fn render_notify(&self) -> Result<Vec<Notify>> {
        let given = self.settings().render.notify.as_deref().unwrap_or_default().split(',').map(str::trim);
        let parsed = given.filter(|text| !text.is_empty()).map(str::parse::<Notify>);
        parsed.collect::<Result<_, _>>().map_err(|bad| {
            let fix = "use names of alert channels, alone or after failed:, completed:, stopped:, waiting: or always:";
            Failure::new(Code::BadValue, format!("render.notify: {bad}"), fix)
        })
    }

    /// The keys that encrypt the data of renders.
    fn render_keys(&self) -> Result<Keys> {
        let settings = self.settings();
        let current = match (&settings.render.current_key, settings.render_keys.as_slice()) {
            (Some(current), _) => current,
            (None, []) => return Ok(Keys::default()),
            (None, [only]) => &only.name,
            (None, _) => {
                let what =
                    "there are several keys for the data of renders, but render.current_key is not set";
                let fix = "set render.current_key to the newest of them";
                return Err(Failure::new(Code::BadRenderKey, what, fix));
            }
        };
        let keys = settings.render_keys.iter().map(|key| (key.name.clone(), key.expose()));
        Keys::new(keys, current).map_err(|bad| {
            Failure::new(bad.code(), bad.to_string(), "correct render.current_key and render.keys")
        })
    }

    pub(crate) fn pool_options(&self) -> PoolOptions {
        let pools = &self.settings().pools;
        PoolOptions { pace: Pace { least: pools.default_wait, most: pools.max_wait.max(pools.default_wait) } }
    }

    /// Makes the views that show pools to other tools.
    pub(crate) async fn make_pool_views(&self, store: &Store) -> Result<()> {
        let pools = &self.settings().pools;
        let name = |key: &'static str, text: &str| {
            text.parse::<ViewName>().map_err(|error| {
                Failure::new(Code::ViewNameTaken, error.to_string(), format!("set {key} to another name"))
            })
        };
        let registry = name("pools.registry_view", &pools.registry_view)?;
        let limits = name("pools.limits_view", &pools.limits_view)?;
        Ok(store.pool_views(&registry, &limits).await?)
    }

    pub(crate) fn new_pool(&self, name: PoolName, max_units: u32) -> tidemill_domain::pool::Settings {
        let pools = &self.settings().pools;
        let some = |units: u32| NonZeroU32::new(units).unwrap_or(NonZeroU32::MIN);
        tidemill_domain::pool::Settings {
            threshold_percent: u8::try_from(pools.default_threshold_percent).unwrap_or(100),
            default_units: some(pools.default_units),
            min_units: some(pools.min_units),
            ..tidemill_domain::pool::Settings::new(name, max_units)
        }
    }

    pub(crate) fn issuers(&self) -> Result<Vec<Issuer>> {
        self.settings().issuers.iter().map(|(name, settings)| issuer(name, settings)).collect()
    }

    pub(crate) fn identity(&self) -> Identity {
        identity(self.settings())
    }

    /// How this process is registered among the others.
    pub(crate) fn process_options(&self) -> ProcessOptions {
        ProcessOptions { identity: self.identity(), ttl: self.lease() }
    }

    /// How long this process counts as alive without a heartbeat.
    pub(crate) fn lease(&self) -> Duration {
        // A URL that cannot be read ends the command elsewhere.
        let usual = || self.database_url().map_or(Duration::from_secs(15), |url| url.default_lease());
        self.settings().process.lease.unwrap_or_else(usual)
    }

    /// The user of this command line.
    pub(crate) fn actor(&self) -> Actor {
        let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
        let name = name.unwrap_or_else(system::user);
        Actor { name, role: Role::Local, request_id: None }
    }
}

/// How others see this process.
pub(crate) fn identity(settings: &Settings) -> Identity {
    let host = tidemill_engine::system::host_name();
    let pid = std::process::id();
    let name = settings.process.name.clone().unwrap_or_else(|| format!("{host}:{pid}"));
    Identity { name, host, pid, version: env!("CARGO_PKG_VERSION").to_owned() }
}

fn issuer(name: &str, settings: &IssuerSettings) -> Result<Issuer> {
    let key = match settings.key().expect("the key was checked when it was read") {
        IssuerKey::Shared(secret) => secret.expose().as_bytes().to_vec(),
        IssuerKey::Public(file) => std::fs::read(file).map_err(|error| {
            let what = format!("the public key {} cannot be read", file.display());
            let fix = format!("correct jwt.issuers.{name}.public_key or the file's permissions");
            Failure::new(Code::FileUnreadable, what, fix).because(error)
        })?,
    };
    let IssuerSettings { issuer, audience, algorithm, role_claim, .. } = settings;
    Issuer::new(issuer, audience, *algorithm, &key, role_claim).map_err(|error| {
        let fix = "use at least 32 bytes for hs256, a public RSA key of 2048 to 8192 bits in PEM for rs256, and one of P-256 for es256";
        Failure::new(Code::BadValue, error.to_string(), fix)
    })
}
