//! Processors made of closures, and processors composed of others: in sequence, or picked for each item.

use crate::item::BoxProcessor;
use crate::job::ItemProcessor;
use std::fmt::Debug;
use tidemill_domain::item::{ErrorKind, ItemError};

/// Combines processors.
///
/// ```
/// use tidemill_domain::item::ItemError;
/// use tidemill_engine::item::ProcessorExt;
///
/// let halve = |number: &i64| Ok::<_, ItemError>((number % 2 == 0).then_some(number / 2));
/// let show = |number: &i64| Ok::<_, ItemError>(Some(number.to_string()));
/// let processor = halve.then(show);
/// ```
pub trait ProcessorExt<I>: ItemProcessor<I> + Sized {
    /// Runs `next` on the output of this processor. Items that this one drops do not reach it.
    fn then<N: ItemProcessor<Self::Output>>(self, next: N) -> CompositeProcessor<Self, N> {
        CompositeProcessor { first: self, second: next }
    }
}

impl<I, P: ItemProcessor<I>> ProcessorExt<I> for P {}

/// Two processors in sequence; made by [`ProcessorExt::then`].
#[derive(Clone)]
pub struct CompositeProcessor<A, B> {
    first: A,
    second: B,
}

impl<I, A, B> ItemProcessor<I> for CompositeProcessor<A, B>
where
    I: Sync,
    A: ItemProcessor<I>,
    B: ItemProcessor<A::Output>,
{
    type Output = B::Output;

    async fn process(&mut self, item: &I) -> Result<Option<B::Output>, ItemError> {
        match self.first.process(item).await? {
            Some(between) => self.second.process(&between).await,
            None => Ok(None),
        }
    }
}

/// Gives each item to one of several processors, picked by a key. An item whose key has none goes to
/// [`otherwise`](Self::otherwise), or is an error.
#[must_use]
pub struct ClassifierProcessor<I, O, K> {
    classify: Box<dyn FnMut(&I) -> K + Send>,
    parts: Vec<(K, BoxProcessor<I, O>)>,
    otherwise: Option<BoxProcessor<I, O>>,
}

impl<I, O, K> ClassifierProcessor<I, O, K>
where
    I: Sync + 'static,
    O: Send + Sync + 'static,
    K: PartialEq + Debug + Send + 'static,
{
    /// Starts without processors; `classify` returns the key of an item.
    pub fn new(classify: impl FnMut(&I) -> K + Send + 'static) -> Self {
        Self { classify: Box::new(classify), parts: Vec::new(), otherwise: None }
    }

    tidemill_domain::setters! {
        /// Adds the processor for a key.
        pub fn on(self, key: K, processor: impl ItemProcessor<I, Output = O>) {
            self.parts.push((key, BoxProcessor::new(processor)))
        }
        /// Adds the processor for all other keys.
        pub fn otherwise(self, processor: impl ItemProcessor<I, Output = O>) {
            self.otherwise = Some(BoxProcessor::new(processor))
        }
    }
}

impl<I, O, K> ItemProcessor<I> for ClassifierProcessor<I, O, K>
where
    I: Sync + 'static,
    O: Send + Sync + 'static,
    K: PartialEq + Debug + Send + 'static,
{
    type Output = O;

    async fn process(&mut self, item: &I) -> Result<Option<O>, ItemError> {
        let key = (self.classify)(item);
        let found = self.parts.iter_mut().find(|(known, _)| *known == key).map(|(_, part)| part);
        match found.or(self.otherwise.as_mut()) {
            Some(part) => part.process(item).await,
            None => {
                let message = format!("no processor was named for items of class {key:?}");
                Err(ItemError::new(ErrorKind::PROCESS, message))
            }
        }
    }
}

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
    is_filter: bool,
}

impl<F> ValidatingProcessor<F> {
    /// The closure returns what is wrong with an item.
    pub fn new<I>(check: F) -> Self
    where
        F: FnMut(&I) -> Result<(), String> + Send + 'static,
    {
        Self { check, is_filter: false }
    }

    tidemill_domain::setters! {
        /// Drops invalid items instead of failing. They count as filtered.
        #[must_use]
        pub fn filter(self) { self.is_filter = true }
    }
}

impl<I, F> ItemProcessor<I> for ValidatingProcessor<F>
where
    I: Clone + Send + Sync + 'static,
    F: FnMut(&I) -> Result<(), String> + Send + 'static,
{
    type Output = I;

    async fn process(&mut self, item: &I) -> Result<Option<I>, ItemError> {
        match (self.check)(item) {
            Ok(()) => Ok(Some(item.clone())),
            Err(_) if self.is_filter => Ok(None),
            Err(reason) => Err(ItemError::new(ErrorKind::VALIDATION, reason)),
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
