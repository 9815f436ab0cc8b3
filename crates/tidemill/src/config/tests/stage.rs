//! A private folder with the files, variables and flags of one test.

use crate::config::{ConfigError, Loaded, Sources, Value, load};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static STAGES: AtomicU32 = AtomicU32::new(0);

/// What one test loads from. Its folder goes when it goes.
pub(super) struct Stage {
    folder: PathBuf,
    pub(super) sources: Sources,
}

impl Stage {
    pub(super) fn new() -> Self {
        let number = STAGES.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tidemill-config-{}-{number}", std::process::id()));
        for part in ["project", "user/tidemill", "system"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let sources = Sources {
            flags: Vec::new(),
            environment: Vec::new(),
            config_file: None,
            working_folder: folder.join("project"),
            user_folder: Some(folder.join("user")),
            system_file: folder.join("system/tidemill.toml"),
        };
        Self { folder, sources }
    }

    pub(super) fn system(self, text: impl AsRef<[u8]>) -> Self {
        self.file("system/tidemill.toml", text)
    }

    pub(super) fn user(self, text: impl AsRef<[u8]>) -> Self {
        self.file("user/tidemill/config.toml", text)
    }

    pub(super) fn project(self, text: impl AsRef<[u8]>) -> Self {
        self.file("project/tidemill.toml", text)
    }

    /// Writes any file of the folder.
    pub(super) fn file(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        fs::write(self.folder.join(name), text).unwrap();
        self
    }

    pub(super) fn config(mut self, path: impl Into<PathBuf>) -> Self {
        self.sources.config_file = Some(path.into());
        self
    }

    pub(super) fn env(mut self, name: &str, text: &str) -> Self {
        self.sources.environment.push((name.to_owned(), text.to_owned()));
        self
    }

    pub(super) fn flag(mut self, path: &'static str, flag: &'static str, text: &str) -> Self {
        self.sources.flags.push((path, flag, text.to_owned()));
        self
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn load(&self) -> Result<Loaded, ConfigError> {
        load(&self.sources)
    }

    /// The only problem that there is.
    pub(super) fn problem(&self) -> ConfigError {
        let error = self.load().unwrap_err();
        assert_eq!(error.problems().len(), 1, "{error:?}");
        error
    }

    /// The value that is shown for a key.
    pub(super) fn value(&self, path: &str) -> Value {
        let loaded = self.load().unwrap();
        loaded.values.into_iter().find(|value| value.key.path == path).unwrap()
    }

    /// The text with the path of this stage taken out.
    pub(super) fn short(&self, text: impl ToString) -> String {
        let folder = self.folder.display().to_string();
        text.to_string().replace(&format!("{folder}/"), "")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(Path::new(&self.folder));
    }
}
