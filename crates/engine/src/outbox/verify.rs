//! Compares what a sink has with what the table says, once or again and again while relays publish.
//!
//! First the table, then the files: whatever the table counts as read was in the files by then. What the files have on
//! top of that was published meanwhile, so the table is asked for it once more.

use super::sink::tail::{Found, Tail};
use super::sink::{SinkAddress, SinkError};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use tidemill_domain::code::Code;
use tidemill_domain::outbox::verify::{Auditor, Place, Verdict};
use tidemill_domain::outbox::{Aggregate, EventId};
use tidemill_store::outbox::AuditFrom;
use tidemill_store::{Store, StoreError};

/// So many events are read at once.
const AT_ONCE: u32 = 10_000;

/// Verifying has failed; this says nothing about what was published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Not a sink that can be verified.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The file is not there.
    #[error("there is no file {0}")]
    NoFile(String),
    /// The files cannot be read.
    #[error("what was published cannot be read")]
    File(#[source] io::Error),
    /// The database cannot.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl VerifyError {
    /// Its stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::Sink(error) => error.code(),
            Self::NoFile(_) | Self::File(_) => Code::BadSink,
            Self::Store(error) => error.code(),
        }
    }

    /// What the reader can do about it.
    pub fn fix(&self) -> String {
        match self {
            Self::Sink(error) => error.fix(),
            Self::NoFile(_) => {
                "name the files that relays publish to; see the sinks of `tidemill outbox relays`".into()
            }
            Self::File(_) => "give this user read access to the files of the sink".into(),
            Self::Store(error) => error.fix(),
        }
    }
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    /// How many of each kind, and the first of them.
    pub verdict: Verdict,
    /// What the first lost events happened to.
    pub lost: HashMap<EventId, Aggregate>,
}

/// Compares a sink with the table, round by round.
#[derive(Debug)]
pub struct Verifier {
    store: Store,
    tail: Tail,
    auditor: Auditor,
    from: AuditFrom,
}

impl Verifier {
    /// Reads these sinks: the files of one, the oldest first.
    pub fn new<'a>(
        store: Store,
        sinks: impl IntoIterator<Item = &'a SinkAddress>,
    ) -> Result<Self, VerifyError> {
        let path = |sink: &SinkAddress| match sink {
            SinkAddress::File(path) => Ok(path.clone()),
            SinkAddress::Stdout => Err(SinkError::Unreadable(sink.to_string())),
        };
        let paths = sinks.into_iter().map(path).collect::<Result<_, _>>()?;
        Ok(Self { store, tail: Tail::new(paths), auditor: Auditor::new(), from: AuditFrom::START })
    }

    /// Looks at what is new in the table and in the files, and tells what is known now.
    pub async fn look(&mut self) -> Result<Verified, VerifyError> {
        self.read_table().await?;
        self.read_files().await?;
        self.confirm().await?;
        let mut verdict = self.auditor.verdict();
        for place in self.tail.unfinished() {
            verdict.torn.push(place);
        }
        let mut lost = HashMap::new();
        if !verdict.lost.first.is_empty() {
            let mut tx = self.store.read().await?;
            lost = tx.outbox_names(&verdict.lost.first).await?;
            tx.rollback().await?;
        }
        Ok(Verified { verdict, lost })
    }

    /// The first of the named files that was never there. What is in it counts as lost.
    pub fn missing(&self) -> Option<&Path> {
        self.tail.missing()
    }

    /// A place, as people read it.
    pub fn place(&self, place: Place) -> String {
        self.tail.name(place)
    }

    async fn read_table(&mut self) -> Result<(), VerifyError> {
        let mut tx = self.store.read().await?;
        let standing = tx.outbox_standing().await?;
        self.auditor.begin();
        self.auditor.lowest(standing.lowest);
        for (slot, seq) in standing.seqs() {
            self.auditor.slot(slot, seq);
        }
        for exception in &standing.exceptions {
            self.auditor.exception(exception.id, exception.slot, exception.seq, exception.excuse);
        }
        let mut first_open = standing.first_running();
        let mut from = self.from;
        loop {
            let page = tx.outbox_audit_page(&standing, from, AT_ONCE).await?;
            let Some(last) = page.last() else { break };
            from = AuditFrom::after(last);
            for event in &page {
                if event.is_read {
                    self.auditor.read(event.id);
                } else {
                    self.auditor.pending(event.id);
                    first_open = first_open.min(event.xid);
                }
            }
        }
        tx.rollback().await?;
        // What was read stays so; the rest, and what had not committed, is looked at again.
        self.from = AuditFrom::before(first_open);
        Ok(())
    }

    async fn read_files(&mut self) -> Result<(), VerifyError> {
        let (mut tail, mut auditor) = (std::mem::take(&mut self.tail), std::mem::take(&mut self.auditor));
        let reading = tokio::task::spawn_blocking(move || {
            let read = tail.read(|place, found| match found {
                Found::Published(published) => auditor.published(place, &published),
                Found::Torn => auditor.torn(place),
            });
            (tail, auditor, read)
        });
        let (tail, auditor, read) =
            reading.await.map_err(|error| VerifyError::File(io::Error::other(error)))?;
        (self.tail, self.auditor) = (tail, auditor);
        read.map_err(VerifyError::File)
    }

    /// What was published and is not in the snapshot is looked for in the table as it is now.
    async fn confirm(&mut self) -> Result<(), VerifyError> {
        let mut tx = self.store.read().await?;
        self.auditor.lowest(tx.outbox_lowest().await?);
        for ids in self.auditor.unconfirmed().chunks(AT_ONCE as usize) {
            for id in tx.outbox_names(ids).await?.into_keys() {
                self.auditor.pending(id);
            }
        }
        tx.rollback().await?;
        Ok(())
    }
}
