//! Several writers that are opened, updated, rolled back and closed as one.

use super::boxed::BoxWriter;
use crate::job::component::{Delivery, ItemStream, ItemWriter};
use tidemill_domain::item::ItemError;
use tidemill_domain::job::ExecutionContext;

/// Writers, in the order in which they were added.
pub(super) struct Parts<O>(Vec<BoxWriter<O>>);

impl<O: Sync + 'static> Parts<O> {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a writer and says which number it has.
    pub(super) fn add(&mut self, writer: impl ItemWriter<O>) -> usize {
        self.0.push(BoxWriter::new(writer));
        self.0.len() - 1
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut BoxWriter<O>> {
        self.0.iter_mut()
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut BoxWriter<O>> {
        self.0.get_mut(number)
    }

    pub(super) async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        for part in &mut self.0 {
            part.open(context).await?;
        }
        Ok(())
    }

    pub(super) fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        self.0.iter_mut().try_for_each(|part| part.update(context))
    }

    /// Closes all of them, whatever becomes of one. Behind one that failed, none counts as complete: the step
    /// has failed, and its next run needs what they have.
    pub(super) async fn close(&mut self, is_complete: bool) -> Result<(), ItemError> {
        let mut closed = Ok(());
        for part in &mut self.0 {
            let is_complete = is_complete && closed.is_ok();
            closed = closed.and(part.close(is_complete).await);
        }
        closed
    }

    /// Rolls all of them back, whatever becomes of one.
    pub(super) async fn roll_back(&mut self) -> Result<(), ItemError> {
        let mut rolled_back = Ok(());
        for part in &mut self.0 {
            rolled_back = rolled_back.and(part.roll_back().await);
        }
        rolled_back
    }

    /// Whether all of them may be written at the same time.
    pub(super) fn is_concurrent(&self) -> bool {
        self.0.iter().all(ItemWriter::is_concurrent)
    }

    /// The weakest promise of all.
    pub(super) fn delivery(&self) -> Delivery {
        let is_exact = self.0.iter().all(|part| part.delivery() == Delivery::ExactlyOnce);
        if is_exact { Delivery::ExactlyOnce } else { Delivery::AtLeastOnce }
    }
}
