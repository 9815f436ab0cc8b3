//! Files of jobs in object stores: `s3://bucket/key`, `gs://bucket/key` and `az://container/key`.
//!
//! [`Objects`] is what the engine reads and writes such paths through. `bytes` reads parts of an object, `wait` lets the
//! readers and writers of the engine wait for requests.

mod bytes;
mod wait;

use crate::bytes::ObjectBytes;
use crate::wait::{failed, wait};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path as Key;
use object_store::{
    Attribute, Attributes, Error, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, WriteMultipart, parse_url_opts,
};
use std::collections::HashMap;
use std::fs::{DirBuilder, Metadata};
use std::io::{self, Read};
#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tidemill_engine::item::Source;
use tidemill_engine::item::storage::{Content, Depth, Existing, Listed, SCHEMES, Storage};
use tokio::task::block_in_place;
use url::Url;

/// Larger objects are sent in parts.
const PART_BYTES: u64 = 8 * 1024 * 1024;

/// A store accepts at most 10,000 parts.
const PARTS_MAX: u64 = 9_000;

/// Parts that are sent at the same time.
const PARTS_AT_ONCE: usize = 4;

/// Of one request. A line of 1.5 Mbit/s sends as many parts as are sent at the same time within it.
const TIMEOUT: &str = "180s";

/// S3 compares what it gets with this checksum, and keeps it. Another algorithm may be chosen by the variable of this name, or
/// none for a server that refuses all.
const CHECKSUM: (&str, &str) = ("aws_checksum_algorithm", "sha256");

/// The metadata of an object by which a writer knows it again. Azure accepts letters and digits only.
const MARK: Attribute = Attribute::Metadata(std::borrow::Cow::Borrowed("tidemillmark"));

/// Beginnings of the variables that have credentials and endpoints.
const VARIABLES: [&str; 3] = ["aws_", "google_", "azure_"];

/// Object stores as the places of files.
pub struct Objects {
    /// Secrets are among them.
    options: Vec<(String, String)>,
    /// By bucket. Each is made when it is first used.
    clients: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
    spool: PathBuf,
}

impl Objects {
    /// The credentials and endpoints are those of the environment. Unfinished files are kept in the folder `spool`, which is
    /// created when it is needed.
    pub fn new(spool: impl Into<PathBuf>) -> Self {
        Self::with(environment(), spool)
    }

    /// The same with other credentials and endpoints, by the names of the variables in lower case.
    pub fn with(options: impl IntoIterator<Item = (String, String)>, spool: impl Into<PathBuf>) -> Self {
        // A program that has chosen another provider keeps it.
        let _chosen_already = rustls::crypto::ring::default_provider().install_default();
        let timeout = ("timeout".to_owned(), TIMEOUT.to_owned());
        let mut options: Vec<_> = options.into_iter().chain([timeout]).collect();
        if options.iter().all(|(name, _)| name != CHECKSUM.0) {
            options.push((CHECKSUM.0.to_owned(), CHECKSUM.1.to_owned()));
        }
        options.retain(|(name, value)| name != CHECKSUM.0 || value != "none");
        Self { options, clients: Mutex::default(), spool: spool.into() }
    }

    /// An answer without a body does not tell a missing bucket from a missing object, but a list does.
    fn bucket_of_missing(&self, url: &str) -> io::Result<()> {
        let (store, key) = self.place(url)?;
        match wait(async move { store.list(Some(&key)).try_next().await }) {
            // The client has no kind for it.
            Err(error) if error.to_string().contains(" 404 ") => {
                Err(io::Error::other(format!("there is no bucket {}", bucket_of(url).unwrap_or_default())))
            }
            // Whoever may not list can write nevertheless.
            _ => Ok(()),
        }
    }

    /// The store of an object or a folder, and its place there.
    fn place(&self, url: &str) -> io::Result<(Arc<dyn ObjectStore>, Key)> {
        let bucket = bucket_of(url).ok_or_else(|| io::Error::other(format!("{url} has no bucket")))?;
        // The key is taken as it is: it may have characters that mean something in a URL.
        let key = Key::parse(url[bucket.len()..].trim_matches('/')).map_err(|error| failed(error.into()))?;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = clients.get(bucket) {
            return Ok((store.clone(), key));
        }
        let parsed = Url::parse(bucket).map_err(io::Error::other)?;
        let (store, _) = parse_url_opts(&parsed, self.options.iter().cloned()).map_err(failed)?;
        let store: Arc<dyn ObjectStore> = store.into();
        clients.insert(bucket.to_owned(), store.clone());
        Ok((store, key))
    }
}

impl Storage for Objects {
    fn open(&self, url: &str) -> io::Result<Source> {
        let (store, path) = self.place(url)?;
        let (asked, key) = (store.clone(), path.clone());
        let found = wait(async move { asked.head(&key).await })?;
        Ok(Source::new(ObjectBytes::new(store, path, (found.size, found.e_tag))))
    }

    fn list(&self, folder: &str, depth: Depth, max: usize) -> io::Result<Vec<Listed>> {
        let (store, key) = self.place(folder)?;
        let bucket = bucket_of(folder).unwrap_or_default().to_owned();
        wait(async move {
            let listed = |object: ObjectMeta| Listed {
                url: format!("{bucket}/{}", object.location),
                size: object.size,
            };
            match depth {
                Depth::Folder => {
                    let found = store.list_with_delimiter(Some(&key)).await?;
                    Ok(found.objects.into_iter().map(listed).collect())
                }
                Depth::Below => store.list(Some(&key)).take(max + 1).map_ok(listed).try_collect().await,
            }
        })
    }

    fn find(&self, url: &str) -> io::Result<Option<String>> {
        let (store, key) = self.place(url)?;
        match wait(async move { store.get_opts(&key, GetOptions::new().with_head(true)).await }) {
            Ok(found) => Ok(Some(
                found.attributes.get(&MARK).map_or_else(String::new, |mark| mark.as_ref().to_owned()),
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.bucket_of_missing(url).map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    fn put(&self, content: Content, url: &str, existing: Existing, mark: &str) -> io::Result<()> {
        let (store, key) = self.place(url)?;
        let Content { bytes: size, read: mut file } = content;
        let attributes = Attributes::from_iter([(MARK, mark.to_owned())]);
        if size <= PART_BYTES {
            let mut content = Vec::new();
            file.read_to_end(&mut content)?;
            let mode = if existing == Existing::Refuse { PutMode::Create } else { PutMode::Overwrite };
            let options = PutOptions { attributes, mode, ..PutOptions::default() };
            let made = wait(async move { store.put_opts(&key, content.into(), options).await });
            return match made {
                // A request whose answer was lost was repeated.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    (self.find(url)?.as_deref() == Some(mark)).then_some(()).ok_or(error)
                }
                made => made.map(drop),
            };
        }
        let part = usize::try_from(PART_BYTES.max(size.div_ceil(PARTS_MAX))).map_err(io::Error::other)?;
        wait(async move {
            let upload = store.put_multipart_opts(&key, PutMultipartOptions::from(attributes)).await?;
            let mut upload = WriteMultipart::new_with_chunk_size(upload, part);
            match send(&mut *file, part, size, &mut upload).await {
                Ok(()) => upload.finish().await.map(drop),
                Err(error) => {
                    // If this fails too, the rules of the bucket remove the parts, which are not an object.
                    let _left_over = upload.abort().await;
                    Err(error)
                }
            }
        })
    }

    fn delete(&self, url: &str) -> io::Result<()> {
        let (store, key) = self.place(url)?;
        match wait(async move { store.delete(&key).await }) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.bucket_of_missing(url),
            deleted => deleted,
        }
    }

    /// Only this user may write there, because a restart trusts what it finds.
    fn spool(&self) -> io::Result<&Path> {
        let mut folder = DirBuilder::new();
        #[cfg(unix)]
        folder.mode(0o700);
        folder.recursive(true).create(&self.spool)?;
        let found = std::fs::metadata(&self.spool)?;
        if !is_own(&found) {
            return Err(io::Error::other(format!(
                "others may write to the folder {}; set jobs.spool to a folder that does not exist yet, or that \
                 only this user may write to",
                self.spool.display()
            )));
        }
        Ok(&self.spool)
    }
}

async fn send(
    file: &mut (dyn Read + Send),
    part: usize,
    size: u64,
    upload: &mut WriteMultipart,
) -> Result<(), Error> {
    let unreadable = |error: io::Error| Error::Generic { store: "the local file", source: error.into() };
    let (mut buffer, mut sent) = (vec![0; part], 0);
    loop {
        // Answers to the parts before are read meanwhile.
        let got = block_in_place(|| file.read(&mut buffer)).map_err(unreadable)?;
        if got == 0 && sent == size {
            return Ok(());
        }
        if got == 0 {
            return Err(unreadable(io::ErrorKind::UnexpectedEof.into()));
        }
        sent += got as u64;
        upload.wait_for_capacity(PARTS_AT_ONCE).await?;
        upload.write(&buffer[..got]);
    }
}

#[cfg(unix)]
fn is_own(folder: &Metadata) -> bool {
    folder.uid() == rustix::process::geteuid().as_raw() && folder.mode() & 0o022 == 0
}

/// Who may write there follows from the rights of the folder above it.
#[cfg(windows)]
fn is_own(_folder: &Metadata) -> bool {
    true
}

fn environment() -> impl Iterator<Item = (String, String)> {
    let known = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        let name = name.into_string().ok()?.to_ascii_lowercase();
        VARIABLES.iter().any(|prefix| name.starts_with(prefix)).then_some(())?;
        Some((name, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(known)
}

/// `s3://bucket` of `s3://bucket/key`; none if it is not such a URL.
fn bucket_of(url: &str) -> Option<&str> {
    let rest = SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme))?;
    let end = rest.find('/').unwrap_or(rest.len());
    (end > 0).then(|| &url[..url.len() - rest.len() + end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_that_others_may_write_to_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let spool = folder.path().join("a/spool");
        let objects = Objects::with([], &spool);
        objects.spool().unwrap();
        assert_eq!(std::fs::metadata(&spool).unwrap().mode() & 0o777, 0o700);

        std::fs::set_permissions(&spool, std::fs::Permissions::from_mode(0o770)).unwrap();

        let refused = objects.spool().unwrap_err().to_string();
        assert!(refused.contains("others may write to the folder"), "{refused}");
    }

    #[test]
    fn s3_gets_a_checksum_unless_another_or_none_is_chosen() {
        let checksum = |chosen: Option<&str>| {
            let chosen = chosen.map(|value| ("aws_checksum_algorithm".to_owned(), value.to_owned()));
            let objects = Objects::with(chosen, "spool");
            let all = objects.options.into_iter().filter(|(name, _)| name == "aws_checksum_algorithm");
            all.map(|(_, value)| value).collect::<Vec<_>>()
        };

        assert_eq!(checksum(None), ["sha256"]);
        assert_eq!(checksum(Some("crc64nvme")), ["crc64nvme"]);
        assert_eq!(checksum(Some("none")), [] as [String; 0]);
    }

    #[test]
    fn buckets_are_told_from_keys() {
        assert_eq!(bucket_of("s3://lake/in/a?b.csv"), Some("s3://lake"));
        assert_eq!(bucket_of("az://lake"), Some("az://lake"));
        for other in ["s3:///a", "s3://", "/s3://lake/a", "http://lake/a", "lake/a", "s3:/lake/a"] {
            assert_eq!(bucket_of(other), None, "{other}");
        }
    }
}
