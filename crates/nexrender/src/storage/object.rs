//! Files in object stores: uploaded whole or not at all, and not over an object that is there.
//!
//! The mark of an object is the SHA-256 of its content. The bytes are hashed while they are sent, and an upload whose bytes are
//! not those that were recorded is never completed. An object counts as ours by its size and its mark; it is not read again.
//! Stores create no object in several parts on condition that there is none, so two queues in one folder may replace each other's.

use super::StorageOptions;
use super::folder::io_trouble;
use crate::blocking_pool::Pulse;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use tidemill_domain::render::output::Output;
use tidemill_domain::render::{Failure, LocalPath, Trouble};
use tidemill_engine::item::storage::{self, Existing};
use tidemill_engine::render::storage::{Content, MayGoOn};

/// Of one upload: the part, its new place and its content.
pub(super) struct Upload<'a> {
    pub(super) output: &'a Output,
    pub(super) url: &'a str,
    pub(super) content: &'a Content,
    pub(super) may_go_on: MayGoOn,
}

pub(super) fn look(url: &str) -> Result<Option<Content>, Trouble> {
    let look = || {
        let store = storage::installed()?;
        let Some(sha256) = store.find(url)? else { return Ok(None) };
        Ok(Some(Content { bytes: store.open(url)?.size()?, sha256 }))
    };
    look().map_err(|error| down(url, &error))
}

pub(super) fn remove(url: &str) -> Result<(), Trouble> {
    storage::installed().and_then(|store| store.delete(url)).map_err(|error| down(url, &error))
}

pub(super) fn upload(
    options: &StorageOptions,
    upload: Upload<'_>,
    pulse: &Arc<Pulse>,
) -> Result<(), Trouble> {
    let Upload { output, url, content, may_go_on } = upload;
    if is_there(url, content)? {
        return Ok(());
    }
    let root = options.output.open()?;
    let path = root.path_of(&output.folder)?;
    let folder =
        root.enter(&output.folder)?.ok_or_else(|| io_trouble(path, &io::ErrorKind::NotFound.into()))?;
    let path = folder.path_of(&output.part)?;
    let gone = || Trouble::new(Failure::NasFailed, &format!("{path}: the part is gone"));
    let file = folder.read(&output.part)?.ok_or_else(gone)?;
    let fault = Arc::new(Mutex::new(None));
    let part = Part {
        file,
        path,
        content: content.clone(),
        digest: Sha256::new(),
        pulse: pulse.clone(),
        may_go_on,
        fault: fault.clone(),
    };
    let put = storage::Content { bytes: content.bytes, read: Box::new(part) };
    let sent = storage::installed()
        .and_then(|store| store.put(put, url, Existing::Refuse, &content.sha256))
        .map_err(|error| down(url, &error));
    let fault = fault.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (fault, sent) {
        (Some(fault), _) => Err(fault),
        // It may be there nevertheless: another worker has uploaded it, or the answer was lost.
        (None, _) if is_there(url, content)? => Ok(()),
        (None, Err(trouble)) => Err(trouble),
        (None, Ok(())) => Err(down(url, &io::Error::other("the store took it, but does not have it"))),
    }
}

/// Whether there is an object with this content; another content is a conflict.
fn is_there(url: &str, content: &Content) -> Result<bool, Trouble> {
    match look(url)? {
        None => Ok(false),
        Some(found) if found == *content => Ok(true),
        Some(found) => {
            let of = if found.sha256.is_empty() { "of another program" } else { &found.sha256 };
            let message = format!(
                "{url} has {} bytes ({of}), and the render {} bytes with the SHA-256 {}",
                found.bytes, content.bytes, content.sha256
            );
            Err(Trouble::new(Failure::OutputConflict, &message))
        }
    }
}

fn down(url: &str, error: &io::Error) -> Trouble {
    Trouble::new(Failure::TargetDown, &format!("{url}: {error}"))
}

/// The part while it is sent. Its end is an error unless the whole is what was recorded, and the worker may still act.
struct Part {
    file: File,
    path: LocalPath,
    content: Content,
    digest: Sha256,
    pulse: Arc<Pulse>,
    may_go_on: MayGoOn,
    /// The store reports an error of its own instead.
    fault: Arc<Mutex<Option<Trouble>>>,
}

impl Part {
    fn try_read(&mut self, buffer: &mut [u8]) -> Result<usize, Trouble> {
        self.pulse.beat()?;
        if !(self.may_go_on)() {
            return Err(Trouble::new(Failure::NasFailed, "the render may belong to another worker now"));
        }
        let got = loop {
            match self.file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(|error| io_trouble(&self.path, &error))?,
            }
        };
        self.digest.update(&buffer[..got]);
        let sha256 =
            || self.digest.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        if got == 0 && !buffer.is_empty() && sha256() != self.content.sha256 {
            let message = format!("{}: the part is not what was copied", self.path);
            return Err(Trouble::new(Failure::NasFailed, &message));
        }
        Ok(got)
    }
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.try_read(buffer).map_err(|trouble| {
            let text = trouble.message.clone();
            *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(trouble);
            io::Error::other(text)
        })
    }
}
