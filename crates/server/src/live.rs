//! Live updates: one stream of server-sent events per open page.
//!
//! [`hub`] knows the listeners and what they were sent; `producer` reads the database once for all of them; this file has
//! the stream itself. A page is complete without live updates, so a lost patch only makes it a little old.

pub mod hub;

mod producer;

pub use hub::{Live, Resume, SubscribeError, Subscription};
pub use producer::run;

use crate::api::QueryString;
use crate::dashboard::region::Page;
use crate::mutation::Caller;
use crate::problem::Problem;
use crate::state::State;
use axum::http::HeaderName;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use hub::Update;
use serde::Deserialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tidemill_domain::code::Code;
use tokio::time::{Interval, MissedTickBehavior, Sleep, interval, sleep};

/// Interval of heartbeats on a stream.
const BEAT_EVERY: Duration = Duration::from_secs(10);
/// How soon a browser reconnects.
const RETRY: Duration = Duration::from_secs(3);
/// Maximum length of a stream. The browser reconnects and authenticates again, so that a revoked token loses access.
const STREAM_MAX: Duration = Duration::from_secs(300);

#[derive(Debug, Deserialize)]
pub(crate) struct EventQuery {
    #[serde(default)]
    page: String,
}

pub(crate) async fn events(
    Caller { state, principal, headers }: Caller,
    QueryString(query): QueryString<EventQuery>,
) -> Result<Response, Problem> {
    if state.inner().is_draining.load(Ordering::Relaxed) {
        return Err(problem(SubscribeError::Closed));
    }
    let boot = boot(&state);
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let resume = last.map_or(Resume::Afresh, |id| after(&boot, id));
    let live = &state.inner().live;
    let subscription =
        live.subscribe(&principal.caller, Page::of_word(&query.page), resume).map_err(problem)?;
    let stream = EventStream::new(subscription, boot);
    // Keeps proxies from buffering the stream.
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no")];
    Ok((unbuffered, Sse::new(stream)).into_response())
}

/// Identifies this run of the server in event ids.
fn boot(state: &State) -> String {
    format!("{:x}", state.inner().started_at.as_micros())
}

/// Where the browser resumes. Ids of another run do not count.
fn after(boot: &str, id: &str) -> Resume {
    let number =
        id.split_once('-').filter(|(run, _)| *run == boot).and_then(|(_, number)| number.parse().ok());
    number.map_or(Resume::Elsewhere, Resume::After)
}

fn problem(error: SubscribeError) -> Problem {
    let remedy = "close other pages of this dashboard, or reload this page yourself";
    let (who, limit) = match error {
        SubscribeError::Closed => return Problem::shutting_down(),
        SubscribeError::OwnLimit => ("you already have", hub::STREAMS_PER_IDENTITY),
        SubscribeError::Limit => ("the server already has", hub::STREAMS),
    };
    let detail = format!("{who} {limit} open streams");
    Problem::new(Code::TooManyRequests, detail, remedy).retry_after(10)
}

/// The events of one page.
#[derive(Debug)]
struct EventStream {
    subscription: Subscription,
    boot: String,
    has_greeted: bool,
    beat: Interval,
    end: Pin<Box<Sleep>>,
}

impl EventStream {
    fn new(subscription: Subscription, boot: String) -> Self {
        let mut beat = interval(BEAT_EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { subscription, boot, has_greeted: false, beat, end: Box::pin(sleep(STREAM_MAX)) }
    }

    fn event(&self, sent: Update) -> Event {
        match sent {
            Update::Patch(message) => {
                let id = format!("{}-{}", self.boot, message.number);
                Event::default().id(id).event("patch").data(&*message.data)
            }
            Update::Reload => Event::default().event("reload").data("1"),
        }
    }
}

impl Stream for EventStream {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.has_greeted {
            self.has_greeted = true;
            return Poll::Ready(Some(Ok(Event::default().retry(RETRY))));
        }
        if let Poll::Ready(sent) = self.subscription.poll_next(context) {
            return Poll::Ready(sent.map(|sent| Ok(self.event(sent))));
        }
        if self.beat.poll_tick(context).is_ready() {
            // The comment is for proxies, the event for the script.
            return Poll::Ready(Some(Ok(Event::default().comment("beat").event("beat").data("1"))));
        }
        self.end.as_mut().poll(context).map(|()| None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ids_of_this_run_are_resumed() {
        assert_eq!(after("a1", "a1-17"), Resume::After(17));
        for id in ["b2-17", "a1", "a1-", "a1-x", "", "17", "a1-17-3"] {
            assert_eq!(after("a1", id), Resume::Elsewhere, "{id}");
        }
    }
}
