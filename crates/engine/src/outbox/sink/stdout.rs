//! Standard output as a sink, for a pipe into another program. Whether that has processed its input is unknown; once it
//! is gone, nothing is delivered any more.

use crate::outbox::sink::batch::Batch;
use crate::outbox::{Publisher, Publishing, SinkOptions};
use crate::system;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tidemill_domain::outbox::Record;
use tokio::sync::Mutex;

#[derive(Debug)]
pub struct StdoutSink {
    options: SinkOptions,
    /// Whether a write failed in the middle of a line.
    is_torn: Arc<Mutex<bool>>,
    /// Whether the reader is gone.
    is_gone: Arc<AtomicBool>,
}

impl StdoutSink {
    pub fn new(options: SinkOptions) -> Self {
        Self { options, is_torn: Arc::default(), is_gone: Arc::default() }
    }
}

impl Publisher for StdoutSink {
    fn name(&self) -> String {
        "stdout".to_owned()
    }

    fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    fn publish<'a>(&'a self, records: &'a [Record]) -> Publishing<'a> {
        let batch = Batch::new(records, &self.options);
        let (is_torn, is_gone) = (self.is_torn.clone(), self.is_gone.clone());
        Box::pin(async move {
            // As in a file: a cancelled call writes nothing later.
            let mut is_torn = is_torn.lock_owned().await;
            let written = tokio::task::spawn_blocking(move || {
                let lines = if *is_torn { batch.lines_on_a_fresh_line() } else { batch.lines() };
                let written = write(lines);
                *is_torn = written.is_err();
                let (written, why) = match written {
                    Ok(()) => (batch.lines().len(), None),
                    Err(error) => {
                        is_gone.fetch_or(error.kind() == io::ErrorKind::BrokenPipe, Ordering::Relaxed);
                        (0, Some(format!("the standard output: {error}")))
                    }
                };
                batch.outcomes(written, why)
            });
            super::outcomes_of(written.await, records)
        })
    }
}

/// Bypasses the buffer of the standard library, which would keep unwritten data and send it later.
fn write(lines: &[u8]) -> io::Result<()> {
    let mut file = system::stdout()?;
    file.write_all(lines)?;
    // A pipe cannot be synced; a file can.
    if file.metadata()?.is_file() { file.sync_data() } else { Ok(()) }
}
