//! Writing events, which relays publish after the chunk commits.

use crate::job::{ChunkScope, Delivery, ItemStream, ItemWriter};
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::outbox::{BadEvent, NewEvent};

/// Writes an event for each item to the outbox, in the chunk's transaction: exactly once. In a
/// [`CompositeWriter`](crate::item::CompositeWriter) with a table, rows and events commit together.
///
/// An invalid event is an error of the kind [`ErrorKind::VALIDATION`], so it can be skipped.
///
/// ```
/// use tidemill_domain::outbox::{NewEvent, Payload};
/// use tidemill_engine::item::OutboxWriter;
///
/// let writer = OutboxWriter::new(|order: &u64| {
///     let payload = Payload::Json(format!("{{\"order\":{order}}}"));
///     Ok(NewEvent::new("order", order.to_string(), "order.loaded", "orders", payload)?)
/// });
/// # let _typed: Box<dyn std::any::Any> = Box::new(writer);
/// ```
#[derive(Clone, Debug)]
pub struct OutboxWriter<F> {
    event: F,
}

impl<F> OutboxWriter<F> {
    /// Writes the event that `event` makes of an item.
    pub fn new<T>(event: F) -> Self
    where
        F: FnMut(&T) -> Result<NewEvent, ItemError> + Send + 'static,
    {
        Self { event }
    }
}

impl<F: Send + 'static> ItemStream for OutboxWriter<F> {}

impl<T, F> ItemWriter<T> for OutboxWriter<F>
where
    T: Sync,
    F: FnMut(&T) -> Result<NewEvent, ItemError> + Send + 'static,
{
    async fn write(&mut self, items: &[T], chunk: &mut ChunkScope) -> Result<(), ItemError> {
        let events = items.iter().map(|item| (self.event)(item).map_err(refused));
        let events = events.collect::<Result<Vec<_>, _>>()?;
        if !events.is_empty() {
            chunk.publish(events).await?;
        }
        Ok(())
    }

    /// Events are published in the order of their numbers, which a chunk written ahead would draw too early.
    fn is_concurrent(&self) -> bool {
        false
    }

    fn staged_tables(&self) -> Option<usize> {
        Some(0)
    }

    fn delivery(&self) -> Delivery {
        Delivery::ExactlyOnce
    }
}

fn refused(error: ItemError) -> ItemError {
    match error.source().and_then(|source| source.downcast_ref::<BadEvent>()) {
        Some(why) => {
            let text = format!("{}: the event is not accepted: {why}", why.code());
            ItemError::new(ErrorKind::VALIDATION, text)
        }
        None => error,
    }
}
