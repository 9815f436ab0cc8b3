//! Reads whole bodies, whatever their `Content-Type`.

use crate::api::too_large;
use crate::problem::Problem;
use crate::server::BODY_BYTES_MAX;
use axum::body::{Body, Bytes};
use futures_core::Stream;
use std::pin::Pin;
use std::time::Duration;

/// A body that is too large is read up to here and discarded. A client that is still sending would not see the answer.
const DRAINED_BYTES_MAX: usize = 16 * 1024 * 1024;

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn read(body: Body) -> Result<Bytes, Problem> {
    let unread = || Problem::bad_request("the body did not arrive", "send it again");
    tokio::time::timeout(PATIENCE, collect(body))
        .await
        .map_err(|_| unread())?
        .map_err(|error| error.map_or_else(too_large, |_| unread()))
}

/// The bytes. The error is that of the connection, or none if there are too many bytes.
async fn collect(body: Body) -> Result<Bytes, Option<axum::Error>> {
    let mut stream = body.into_data_stream();
    let mut next = async || std::future::poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await;
    let (mut bytes, mut length) = (Vec::new(), 0);
    while let Some(part) = next().await {
        let part = part.map_err(Some)?;
        length += part.len();
        if length <= BODY_BYTES_MAX {
            bytes.extend_from_slice(&part);
        } else if length > DRAINED_BYTES_MAX {
            break;
        }
    }
    if length > BODY_BYTES_MAX { Err(None) } else { Ok(bytes.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::code::Code;

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit() {
        let largest = vec![b'x'; BODY_BYTES_MAX];
        assert_eq!(read(Body::from(largest.clone())).await.unwrap(), largest);

        for length in [BODY_BYTES_MAX + 1, DRAINED_BYTES_MAX + 1] {
            let problem = read(Body::from(vec![b'x'; length])).await.unwrap_err();
            assert_eq!(problem.code(), Code::TooLarge, "{length}");
        }
    }
}
