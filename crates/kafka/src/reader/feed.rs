//! The thread that reads a topic: it first reports what there is to read, then sends the records in portions and waits
//! while the reader is busy. It ends by itself when the reader is dropped.
//!
//! It reads one partition after the other, so that a restart sees the records in the same order.

use super::plan::{Begin, Progress, plan};
use super::record::KafkaRecord;
use crate::consumer::{Consumer, Isolation, Span};
use crate::failure::ReadFailure;
use crate::options::KafkaOptions;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

const PORTIONS: usize = 2;

/// A portion is complete with this many records, or `BYTES_MAX` bytes.
const RECORDS_MAX: usize = 500;
const BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) enum Portion {
    /// Of one partition, in order.
    Records(Vec<KafkaRecord>),
    Finished(i32),
}

#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) options: Arc<KafkaOptions>,
    pub(super) topic: Arc<str>,
    pub(super) isolation: Isolation,
    pub(super) patience: Duration,
}

/// The reader's side of the thread.
#[derive(Debug)]
pub(super) struct Feed {
    portions: mpsc::Receiver<Result<Portion, ReadFailure>>,
}

impl Feed {
    /// Starts the thread and waits for its report.
    pub(super) async fn start(order: Order, begin: Begin) -> Result<(Progress, Self), ReadFailure> {
        let (tell, told) = oneshot::channel();
        let (send, portions) = mpsc::channel(PORTIONS);
        let work = move || {
            let planned = Consumer::new(&order.options, order.isolation, order.patience)
                .and_then(|consumer| Ok((plan(&consumer, &order.topic, begin)?, consumer)));
            match planned {
                Ok((progress, consumer)) => {
                    // The receiver is gone if the step was stopped.
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

    /// Cancel-safe: a portion that was not received stays in the queue.
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

    /// Breaks when the reader is gone.
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
