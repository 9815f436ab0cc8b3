//! Compares a sink with the outbox table, once or repeatedly while relays publish.
//!
//! The table is read first: whatever it counts as read was in the sink by then. Records found only in the sink were
//! published meanwhile, so the table is asked for them once more.

use super::sink::tail::Tail;
pub use super::sink::tail::TailEntry;
use super::sink::{SinkAddress, SinkError};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use tidemill_domain::code::Code;
use tidemill_domain::outbox::verify::{Auditor, Lane, Place, Verdict};
use tidemill_domain::outbox::{Aggregate, EventId};
use tidemill_store::outbox::AuditFrom;
use tidemill_store::{Store, StoreError};

const AT_ONCE: u32 = 10_000;

/// Verification failed; this says nothing about what was published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    #[error(transparent)]
    Sink(#[from] SinkError),
    #[error("there is no file {0}")]
    NoFile(String),
    #[error("{what}")]
    Unreadable { code: Code, what: String, fix: String },
    #[error("what was published cannot be read")]
    File(#[source] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl VerifyError {
    pub fn code(&self) -> Code {
        match self {
            Self::Sink(error) => error.code(),
            Self::NoFile(_) | Self::File(_) => Code::BadSink,
            Self::Unreadable { code, .. } => *code,
            Self::Store(error) => error.code(),
        }
    }

    pub fn fix(&self) -> String {
        match self {
            Self::Sink(error) => error.fix(),
            Self::NoFile(_) => {
                "name the files that relays publish to; see the sinks of `tidemill outbox relays`".into()
            }
            Self::Unreadable { fix, .. } => fix.clone(),
            Self::File(_) => "give this user read access to the files of the sink".into(),
            Self::Store(error) => error.fix(),
        }
    }
}

/// Event type, its topic, and whether that was redirected.
pub type Destination = (String, String, bool);

/// Reads what was published, round by round. Blocking.
pub trait ReadBack: Send + std::fmt::Debug + 'static {
    /// Reports everything new. `destinations` are those of the events in the table, if they are
    /// [wanted](Self::wants_destinations).
    fn read(
        &mut self,
        destinations: &[Destination],
        found: &mut dyn FnMut(Lane, Place, TailEntry),
    ) -> Result<(), VerifyError>;

    /// Whether it needs the destinations of events, which are expensive to query.
    fn wants_destinations(&self) -> bool {
        false
    }

    /// Where a record has only begun so far.
    fn unfinished(&self) -> Vec<Place> {
        Vec::new()
    }

    /// A part that never existed. Its records count as lost.
    fn missing(&self) -> Option<&Path> {
        None
    }

    fn name(&self, place: Place) -> String;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    pub verdict: Verdict,
    /// Aggregates of the first lost events.
    pub lost: HashMap<EventId, Aggregate>,
}

#[derive(Debug)]
pub struct Verifier {
    store: Store,
    /// None only while it is read.
    sink: Option<Box<dyn ReadBack>>,
    auditor: Auditor,
    from: AuditFrom,
    destinations: Vec<Destination>,
}

impl Verifier {
    /// Reads the files of a sink, the oldest first.
    pub fn new<'a>(
        store: Store,
        sinks: impl IntoIterator<Item = &'a SinkAddress>,
    ) -> Result<Self, VerifyError> {
        let path = |sink: &SinkAddress| match sink {
            SinkAddress::File(path) => Ok(path.clone()),
            SinkAddress::Stdout => Err(SinkError::Unreadable(sink.to_string())),
        };
        let paths = sinks.into_iter().map(path).collect::<Result<_, _>>()?;
        Ok(Self::of(store, Tail::new(paths)))
    }

    pub fn of(store: Store, sink: impl ReadBack) -> Self {
        let (auditor, from) = (Auditor::default(), AuditFrom::START);
        Self { store, sink: Some(Box::new(sink)), auditor, from, destinations: Vec::new() }
    }

    #[crate::boxed]
    pub async fn look(&mut self) -> Result<Verified, VerifyError> {
        self.read_table().await?;
        self.read_sink().await?;
        self.confirm().await?;
        let mut verdict = self.auditor.verdict();
        let unfinished = self.sink.iter().flat_map(|sink| sink.unfinished());
        unfinished.for_each(|place| verdict.torn.push(place));
        let mut lost = HashMap::new();
        if !verdict.lost.first.is_empty() {
            let mut tx = self.store.read().await?;
            lost = tx.outbox().names(&verdict.lost.first).await?;
        }
        Ok(Verified { verdict, lost })
    }

    /// The first named file that never existed. Its records count as lost.
    pub fn missing(&self) -> Option<&Path> {
        self.sink.as_ref()?.missing()
    }

    pub fn place(&self, place: Place) -> String {
        self.sink.as_ref().map(|sink| sink.name(place)).unwrap_or_default()
    }

    async fn read_table(&mut self) -> Result<(), VerifyError> {
        let mut tx = self.store.read().await?;
        let position = tx.outbox().position().await?;
        if self.sink.as_ref().is_some_and(|sink| sink.wants_destinations()) {
            self.destinations = tx.outbox().topics().await?;
        }
        self.auditor.begin();
        self.auditor.lowest = position.lowest;
        for (slot, seq) in position.seqs() {
            self.auditor.slot(slot, seq);
        }
        for failed in &position.failed_events {
            self.auditor.failed_event(failed.id, failed.slot, failed.seq, failed.excuse);
        }
        let mut first_open = position.first_running();
        let mut from = self.from;
        loop {
            let page = tx.outbox().audit_page(&position, from, AT_ONCE).await?;
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
        // Read events stay read; the rest is looked at again.
        self.from = AuditFrom::before(first_open);
        Ok(())
    }

    async fn read_sink(&mut self) -> Result<(), VerifyError> {
        let Some(mut sink) = self.sink.take() else {
            return Err(VerifyError::File(io::Error::other("its reader has ended")));
        };
        let (mut auditor, destinations) =
            (std::mem::take(&mut self.auditor), std::mem::take(&mut self.destinations));
        let reading = tokio::task::spawn_blocking(move || {
            let read = sink.read(&destinations, &mut |lane, place, found| match found {
                TailEntry::Published(published) => auditor.published(lane, place, &published),
                TailEntry::Torn => auditor.torn.push(place),
                TailEntry::Foreign => auditor.foreign += 1,
            });
            (sink, auditor, read)
        });
        let (sink, auditor, read) =
            reading.await.map_err(|error| VerifyError::File(io::Error::other(error)))?;
        (self.sink, self.auditor) = (Some(sink), auditor);
        read
    }

    /// Looks up published events that are not in the snapshot in the current table.
    async fn confirm(&mut self) -> Result<(), VerifyError> {
        let mut tx = self.store.read().await?;
        self.auditor.lowest = tx.outbox().lowest().await?;
        for ids in self.auditor.unconfirmed().chunks(AT_ONCE as usize) {
            for id in tx.outbox().names(ids).await?.into_keys() {
                self.auditor.pending(id);
            }
        }
        Ok(())
    }
}
