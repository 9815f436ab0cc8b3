//! The transactions of one producer. Blocking calls of the client run on their own thread.

use crate::producer::Producer;
use rdkafka::error::{KafkaError as ClientError, KafkaResult};
use rdkafka::producer::Producer as _;
use rdkafka::types::RDKafkaErrorCode;
use std::sync::Arc;
use std::time::Duration;

/// Why a transaction did not complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// No answer; the call may be retried.
    Late(String),
    /// Fenced by another producer with the same id, or given up by the brokers.
    Ousted(String),
    /// The producer is unusable, and the outcome of the transaction is unknown.
    Lost(String),
}

impl Trouble {
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Late(why) | Self::Ousted(why) | Self::Lost(why) => why,
        }
    }
}

/// Fences all other producers of this id. Their transactions have ended when it returns.
pub(crate) async fn init(producer: &Arc<Producer>, within: Duration) -> Result<(), Trouble> {
    on_thread(producer, move |client| client.init_transactions(within)).await
}

pub(crate) fn begin(producer: &Producer) -> Result<(), Trouble> {
    producer.forget_failure();
    ask(producer, Client::begin_transaction)
}

/// Waits for all records and commits. Retrying after a timeout is safe.
pub(crate) async fn commit(producer: &Arc<Producer>, within: Duration) -> Result<(), Trouble> {
    on_thread(producer, move |client| client.commit_transaction(within)).await
}

pub(crate) async fn abort(producer: &Arc<Producer>, within: Duration) -> Result<(), Trouble> {
    on_thread(producer, move |client| client.abort_transaction(within)).await
}

type Client = rdkafka::producer::ThreadedProducer<crate::producer::Context>;

async fn on_thread(
    producer: &Arc<Producer>,
    question: impl FnOnce(&Client) -> KafkaResult<()> + Send + 'static,
) -> Result<(), Trouble> {
    let producer = producer.clone();
    let done = tokio::task::spawn_blocking(move || ask(&producer, question)).await;
    done.unwrap_or_else(|error| Err(Trouble::Lost(error.to_string())))
}

fn ask(producer: &Producer, question: impl FnOnce(&Client) -> KafkaResult<()>) -> Result<(), Trouble> {
    let client =
        producer.client.as_ref().ok_or_else(|| Trouble::Lost("the producer is closed".to_owned()))?;
    question(client).map_err(|error| trouble(client, &error))
}

fn trouble(client: &Client, error: &ClientError) -> Trouble {
    if let Some((code, reason)) = client.client().fatal_error() {
        return if is_ousted(code) { Trouble::Ousted(reason) } else { Trouble::Lost(reason) };
    }
    match error {
        ClientError::Transaction(error) => {
            let why = error.string();
            if is_ousted(error.code()) {
                Trouble::Ousted(why)
            } else if error.is_retriable() && !error.txn_requires_abort() {
                Trouble::Late(why)
            } else {
                Trouble::Lost(why)
            }
        }
        // Records have not arrived yet: the coordinator was not asked.
        ClientError::Flush(RDKafkaErrorCode::OperationTimedOut) => Trouble::Late(error.to_string()),
        other => Trouble::Lost(other.to_string()),
    }
}

fn is_ousted(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced | RDKafkaErrorCode::InvalidProducerEpoch
    )
}
