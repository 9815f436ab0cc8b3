//! A task that reads ahead while a batch is processed. The channel is bounded, so a slow step slows its source.

use crate::item::failure::{fatal, reading};
use crate::item::row::Item;
use futures_core::Stream;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::vec;
use tidemill_domain::item::ItemError;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Batches in the channel. One more is being read, and one more is being processed.
const BATCHES_MAX: usize = 1;

/// The end is an explicit message: a task that died must not look finished.
enum Message {
    Batch(Vec<Item>),
    Failed(ItemError),
    End,
}

#[derive(Debug)]
pub(crate) struct Feed {
    receiver: mpsc::Receiver<Message>,
    batch: vec::IntoIter<Item>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
pub(crate) enum Flow {
    /// No feed: not started, or ended by an error. The next read starts one.
    #[default]
    Idle,
    Running(Feed),
    Done,
}

impl Flow {
    /// `None` at the end. An error ends the feed, and the next read starts again at the reader's position.
    #[inline]
    pub(crate) async fn next(&mut self) -> Result<Option<Item>, ItemError> {
        let Self::Running(feed) = self else { return Ok(None) };
        let next = feed.next().await;
        match &next {
            Ok(Some(_)) => {}
            Ok(None) => *self = Self::Done,
            Err(_) => *self = Self::Idle,
        }
        next
    }

    pub(crate) async fn close(&mut self) {
        if let Self::Running(feed) = std::mem::take(self) {
            feed.close().await;
        }
    }
}

/// The sending side.
pub(crate) struct Sink {
    sender: mpsc::Sender<Message>,
}

impl Sink {
    /// False if the receiver is gone.
    pub(crate) async fn send(&self, items: Vec<Item>) -> bool {
        items.is_empty() || self.sender.send(Message::Batch(items)).await.is_ok()
    }

    /// Sends rows as they arrive, `size` at a time, after the first `skip`.
    pub(crate) async fn hand_on<R>(
        &self,
        mut rows: Rows<'_, R>,
        mut skip: u64,
        size: usize,
        mut decode: impl FnMut(&R) -> Result<Item, ItemError>,
    ) -> Result<(), ItemError> {
        let mut batch = Vec::with_capacity(size);
        while let Some(row) = poll_fn(|context| rows.as_mut().poll_next(context)).await {
            let row = row.map_err(reading)?;
            if skip > 0 {
                skip -= 1;
                continue;
            }
            batch.push(decode(&row)?);
            if batch.len() == size
                && !self.send(std::mem::replace(&mut batch, Vec::with_capacity(size))).await
            {
                return Ok(());
            }
        }
        self.send(batch).await;
        Ok(())
    }
}

type Rows<'r, R> = Pin<Box<dyn Stream<Item = Result<R, sqlx::Error>> + Send + 'r>>;

impl Feed {
    /// Starts the task. It ends by itself, or at once when the feed is closed or dropped.
    pub(crate) fn start<F, R>(run: F) -> Self
    where
        F: FnOnce(Sink) -> R + Send + 'static,
        R: Future<Output = Result<(), ItemError>> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(BATCHES_MAX);
        let task = tokio::spawn(async move {
            let work = run(Sink { sender: sender.clone() });
            tokio::select! {
                () = sender.closed() => {}
                done = work => {
                    let last = done.map_or_else(Message::Failed, |()| Message::End);
                    // The receiver may be gone.
                    let _heard = sender.send(last).await;
                }
            }
        });
        Self { receiver, batch: Vec::new().into_iter(), task }
    }

    /// `None` at the end. Does not wait while a batch is buffered.
    #[inline]
    pub(crate) async fn next(&mut self) -> Result<Option<Item>, ItemError> {
        loop {
            if let Some(item) = self.batch.next() {
                return Ok(Some(item));
            }
            match self.receiver.recv().await {
                Some(Message::Batch(batch)) => self.batch = batch.into_iter(),
                Some(Message::Failed(error)) => return Err(error),
                Some(Message::End) => return Ok(None),
                None => return Err(fatal("the task that reads ahead has died")),
            }
        }
    }

    /// Ends the task and its connection.
    pub(crate) async fn close(self) {
        drop(self.receiver);
        if self.task.await.is_err() {
            tracing::debug!("a task that read ahead did not end in order");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tidemill_domain::item::{ErrorKind, Phase, Row, Value};
    use tokio::sync::Notify;

    fn batch(numbers: std::ops::Range<i64>) -> Vec<Item> {
        let names: Arc<[String]> = ["n".to_owned()].into();
        numbers.map(|number| Ok(Row::new(Arc::clone(&names), vec![Value::Long(number)]))).collect()
    }

    #[tokio::test]
    async fn batches_come_in_order_and_then_the_end() {
        let mut feed = Feed::start(|sink| async move {
            for start in [0, 3, 6] {
                sink.send(batch(start..start + 3)).await;
            }
            Ok(())
        });

        let mut seen = Vec::new();
        while let Some(item) = feed.next().await.unwrap() {
            seen.push(item.unwrap().get::<i64>("n").unwrap());
        }

        assert_eq!(seen, (0..9).collect::<Vec<_>>());
        feed.close().await;
    }

    #[tokio::test]
    async fn a_task_that_dies_is_not_taken_for_the_end() {
        let mut feed = Feed::start(|sink| async move {
            sink.send(batch(0..1)).await;
            panic!("planted");
        });

        assert!(feed.next().await.unwrap().is_some());
        let error = feed.next().await.unwrap_err();

        assert_eq!(error.kind_in(Phase::Read), ErrorKind::FATAL);
    }

    #[tokio::test]
    async fn a_closed_feed_ends_its_task_even_while_it_waits() {
        let gone = Arc::new(Notify::new());
        let guard = Arc::clone(&gone);
        let feed = Feed::start(|_sink| async move {
            let _guard = guard;
            std::future::pending::<()>().await;
            Ok(())
        });

        feed.close().await;

        assert_eq!(Arc::strong_count(&gone), 1);
    }
}
