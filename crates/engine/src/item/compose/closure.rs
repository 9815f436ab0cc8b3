//! Processors made of a closure: one that validates items, and one that is async.

use crate::job::ItemProcessor;
use std::future::Future;
use tidemill_domain::item::{ErrorKind, ItemError};

/// Passes valid items on. Invalid ones are errors of the kind [`ErrorKind::VALIDATION`], or are dropped.
///
/// ```
/// use tidemill_engine::item::ValidatingProcessor;
///
/// let positive = ValidatingProcessor::new(|amount: &i64| {
///     if *amount > 0 { Ok(()) } else { Err(format!("the amount {amount} is not positive")) }
/// });
/// ```
#[derive(Clone)]
pub struct ValidatingProcessor<F> {
    check: F,
    invalid: Invalid,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Invalid {
    Fails,
    Dropped,
}

impl<F> ValidatingProcessor<F> {
    /// The closure returns what is wrong with an item.
    pub fn new<I>(check: F) -> Self
    where
        F: FnMut(&I) -> Result<(), String> + Send + 'static,
    {
        Self { check, invalid: Invalid::Fails }
    }

    /// Drops invalid items instead of failing. They count as filtered.
    #[must_use]
    pub fn filter(mut self) -> Self {
        self.invalid = Invalid::Dropped;
        self
    }
}

impl<I, F> ItemProcessor<I> for ValidatingProcessor<F>
where
    I: Clone + Send + Sync + 'static,
    F: FnMut(&I) -> Result<(), String> + Send + 'static,
{
    type Output = I;

    async fn process(&mut self, item: &I) -> Result<Option<I>, ItemError> {
        match ((self.check)(item), self.invalid) {
            (Ok(()), _) => Ok(Some(item.clone())),
            (Err(_), Invalid::Dropped) => Ok(None),
            (Err(reason), Invalid::Fails) => Err(ItemError::new(ErrorKind::VALIDATION, reason)),
        }
    }
}

/// Processes items with an async closure, for work that waits, such as a call to another system.
///
/// The future must not borrow the item: clone what it needs before the `async move`.
///
/// ```
/// use tidemill_domain::item::ItemError;
/// use tidemill_engine::item::AsyncProcessor;
///
/// let processor = AsyncProcessor(|account: &String| {
///     let account = account.clone();
///     async move { Ok::<_, ItemError>(Some(account.len())) }
/// });
/// ```
#[derive(Clone)]
pub struct AsyncProcessor<F>(pub F);

impl<I, O, F, R> ItemProcessor<I> for AsyncProcessor<F>
where
    I: Sync,
    O: Send + Sync + 'static,
    F: FnMut(&I) -> R + Send + 'static,
    R: Future<Output = Result<Option<O>, ItemError>> + Send,
{
    type Output = O;

    fn process(&mut self, item: &I) -> impl Future<Output = Result<Option<O>, ItemError>> + Send {
        (self.0)(item)
    }
}
