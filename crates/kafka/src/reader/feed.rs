//! The thread that reads a topic for a reader: first it says what there is to read, then it brings the records, in
//! portions, and waits while nobody takes them. It ends by itself when nobody is there any more.
//!
//! One partition after the other, so that a restart sees the records in the same order.

use super::plan::{Begin, plan};
use super::progress::Progress;
use super::record::KafkaRecord;
use crate::consumer::{Consumer, Isolation, Span};
use crate::failure::ReadFailure;
use crate::options::KafkaOptions;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Portions that wait to be taken.
const PORTIONS: usize = 2;

/// A portion is complete with so many records, or so many bytes.
const RECORDS_MAX: usize = 500;
const BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) enum Portion {
    /// Records of one partition, in their order.
    Records(Vec<KafkaRecord>),
    /// Nothing is left of this partition.
    Finished(i32),
}

#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) options: Arc<KafkaOptions>,
    pub(super) topic: Arc<str>,
    pub(super) isolation: Isolation,
    pub(super) patience: Duration,
}

/// What a reader hears from its thread.
#[derive(Debug)]
pub(super) struct Feed {
    portions: mpsc::Receiver<Result<Portion, ReadFailure>>,
}

impl Feed {
    /// Starts the thread, and waits for what there is to read.
    pub(super) async fn start(order: Order, begin: Begin) -> Result<(Progress, Self), ReadFailure> {
        let (tell, told) = oneshot::channel();
        let (send, portions) = mpsc::channel(PORTIONS);
        let work = move || {
            let planned = Consumer::new(&order.options, order.isolation, order.patience)
                .and_then(|consumer| Ok((plan(&consumer, &order.topic, begin)?, consumer)));
            match planned {
                Ok((progress, consumer)) => {
                    // Nobody waits any more when the step was stopped meanwhile.
                    if tell.send(Ok(progress.clone())).is_ok() {
                        bring(&consumer, &order.topic, &progress, &send);
                    }
                }
                Err(failure) => drop(tell.send(Err(failure))),
            }
        };
        let thread = std::thread::Builder::new().name("tidemill-kafka".into()).spawn(work);
        thread.map_err(|_| ReadFailure::Ended)?;
        let progress = told.await.map_err(|_| ReadFailure::Ended)??;
        Ok((progress, Self { portions }))
    }

    /// The next portion. What is not taken is not lost.
    pub(super) async fn next(&mut self) -> Result<Portion, ReadFailure> {
        self.portions.recv().await.unwrap_or(Err(ReadFailure::Ended))
    }
}

type Send = mpsc::Sender<Result<Portion, ReadFailure>>;

fn bring(consumer: &Consumer, topic: &Arc<str>, progress: &Progress, send: &Send) {
    for (partition, part) in &progress.parts {
        let span = Span { topic, partition: *partition, from: part.next, to: part.end };
        let mut load = Load { send, records: Vec::new(), bytes: 0 };
        let read = consumer.read(&span, &mut |seen| match seen {
            Some(message) => load.push(KafkaRecord::of(topic, message)),
            None => load.unload(),
        });
        if load.unload().is_break() {
            return;
        }
        let told = read.map(|()| Portion::Finished(*partition));
        let is_last = told.is_err();
        if send.blocking_send(told).is_err() || is_last {
            return;
        }
    }
}

struct Load<'a> {
    send: &'a Send,
    records: Vec<KafkaRecord>,
    bytes: usize,
}

impl Load<'_> {
    fn push(&mut self, record: KafkaRecord) -> ControlFlow<()> {
        self.bytes += record.bytes();
        self.records.push(record);
        if self.records.len() < RECORDS_MAX && self.bytes < BYTES_MAX {
            return ControlFlow::Continue(());
        }
        self.unload()
    }

    /// Breaks off when nobody takes it.
    fn unload(&mut self) -> ControlFlow<()> {
        self.bytes = 0;
        let records = std::mem::take(&mut self.records);
        let is_gone = match records.is_empty() {
            true => self.send.is_closed(),
            false => self.send.blocking_send(Ok(Portion::Records(records))).is_err(),
        };
        if is_gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
