//! Errors of pools.

use std::sync::Arc;
use tidemill_domain::code::Code;
use tidemill_store::StoreError;

/// Cheap to clone, because one failure is returned to many callers.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    #[error(transparent)]
    Store(Arc<StoreError>),
    #[error("this process is about to end and takes no more requests")]
    Ending,
    #[error("too many requests wait for a decision")]
    Busy,
}

impl From<StoreError> for PoolError {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

impl PoolError {
    pub fn code(&self) -> Code {
        match self {
            Self::Store(error) => error.code(),
            Self::Ending | Self::Busy => Code::DatabaseBusy,
        }
    }

    pub fn fix(&self) -> String {
        match self {
            Self::Store(error) => error.fix(),
            Self::Ending => "ask again in a moment, or ask another server".into(),
            Self::Busy => "ask again in a moment".into(),
        }
    }
}
