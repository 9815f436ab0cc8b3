//! Processors composed of others: in sequence, or picked for each item by a closure.

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

    /// Adds the processor for a key.
    pub fn on(mut self, key: K, processor: impl ItemProcessor<I, Output = O>) -> Self {
        self.parts.push((key, BoxProcessor::new(processor)));
        self
    }

    /// Adds the processor for all other keys.
    pub fn otherwise(mut self, processor: impl ItemProcessor<I, Output = O>) -> Self {
        self.otherwise = Some(BoxProcessor::new(processor));
        self
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
