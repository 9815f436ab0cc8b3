//! The film of a render that waits for approval, as a browser plays it: whole or in ranges. The file name follows from the job
//! of the render and the folder from the configuration, so no request can name another file.

use super::poster;
use crate::api::render::find;
use crate::api::{Id, Read};
use crate::problem::Problem;
use crate::state::State;
use axum::body::Body;
use axum::extract::State as Given;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use maud::{Markup, html};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};
use tidemill_domain::render::{LocalPath, RenderId, Uid};
use tidemill_engine::item::Source;
use tidemill_engine::render::places::noted_clip;
use tidemill_store::render::RenderRecord;
use tokio::sync::mpsc;

const BLOCK_BYTES: u64 = 256 * 1024;

/// Whatever is waiting in memory for a slow client.
const BLOCKS_MAX: usize = 2;

fn place(state: &State, record: &RenderRecord) -> Option<LocalPath> {
    let staging = state.inner().parts.render.staging.as_ref()?;
    let job = record.render.job.filter(|_| record.render.awaits_approval())?;
    noted_clip(staging, Uid::new(record.id(), job), record.staged_path.as_ref()?)
}

/// The player, or why there is none.
pub(super) fn player(state: &State, record: &RenderRecord) -> Markup {
    let address = |what: &str| state.path(&format!("/render/{}/{what}", record.id()));
    let picture = poster::place(state, record).map(|_| address("poster"));
    html! {
        @if place(state, record).is_some() {
            video.poster src=(address("clip")) poster=[picture] controls preload="none"
                aria-label={ "The film of render " (record.id()) } {}
            p { a href=(address("clip")) { "Open the film" } span.soft { " if it does not play here." } }
        } @else {
            p {
                "This server cannot show the film: it does not have the folder in which render nodes leave files. Set "
                code { "render.mount" } " on it, or open "
                code { (record.staged_path.as_deref().unwrap_or("the file")) } " yourself."
            }
        }
    }
}

pub(crate) async fn file(
    Given(state): Given<State>,
    Id(id): Id,
    headers: HeaderMap,
    Read(mut tx): Read,
) -> Result<Response, Problem> {
    let record = find(&mut tx, RenderId::new(id)).await?;
    drop(tx);
    let missing = || Problem::not_found("a film of this render that waits for approval");
    let place = place(&state, &record).ok_or_else(missing)?.to_string();
    let kind = kind(&place);
    // A file of another size is not what would be approved.
    let bytes = record.output_bytes.ok_or_else(missing)?;
    let opened =
        poster::in_time(move || poster::open_file(&place).filter(|(_, found)| *found == bytes)).await?;
    let (film, _) = opened.ok_or_else(missing)?;
    let tag = format!("\"{}\"", record.output_sha256.unwrap_or_default());
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    // Whoever has the beginning of another film needs all of this one.
    let is_same = text(header::IF_RANGE).is_none_or(|seen| seen == tag);
    let (status, from, until) = match range(text(header::RANGE).filter(|_| is_same), bytes) {
        Range::All => (StatusCode::OK, 0, bytes),
        Range::Part(from, until) => (StatusCode::PARTIAL_CONTENT, from, until),
        Range::Outside => {
            let range = [(header::CONTENT_RANGE, format!("bytes */{bytes}"))];
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, range).into_response());
        }
    };
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_LENGTH, (until - from).to_string()),
        (header::ACCEPT_RANGES, "bytes".to_owned()),
        (header::ETAG, tag),
        (header::CACHE_CONTROL, "private, no-cache".to_owned()),
    ];
    let mut response = (status, headers, Body::from_stream(blocks(film, from, until))).into_response();
    if status == StatusCode::PARTIAL_CONTENT
        && let Ok(range) = HeaderValue::from_str(&format!("bytes {from}-{}/{bytes}", until - 1))
    {
        response.headers_mut().insert(header::CONTENT_RANGE, range);
    }
    Ok(response)
}

/// The media type, from the extension: the file has passed the checks of its profile.
fn kind(place: &str) -> &'static str {
    match place.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "mp4" | "m4v" => "video/mp4",
        "mov" => "video/quicktime",
        "webm" => "video/webm",
        _ => "application/octet-stream",
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Range {
    All,
    /// From this byte, and up to the byte before the second one.
    Part(u64, u64),
    Outside,
}

/// A header that asks for several ranges, or that nobody understands, asks for all.
fn range(header: Option<&str>, bytes: u64) -> Range {
    let asked = header.and_then(|text| text.strip_prefix("bytes=")).and_then(|text| text.split_once('-'));
    let Some((first, last)) = asked else { return Range::All };
    let (from, until) = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => (first, last.saturating_add(1).min(bytes)),
        (Ok(first), Err(_)) if last.is_empty() => (first, bytes),
        (Err(_), Ok(count)) if first.is_empty() => (bytes.saturating_sub(count), bytes),
        _ => return Range::All,
    };
    if from < until { Range::Part(from, until) } else { Range::Outside }
}

/// Reads as fast as the client takes it. Between two blocks no thread waits.
fn blocks(film: File, from: u64, until: u64) -> Blocks {
    let (send, receive) = mpsc::channel(BLOCKS_MAX);
    let film = Source::new(film);
    tokio::spawn(async move {
        let mut at = from;
        while at < until {
            let (mut film, count) = (film.clone(), BLOCK_BYTES.min(until - at));
            let read = poster::in_time(move || {
                let mut block = vec![0; usize::try_from(count).ok()?];
                film.seek(SeekFrom::Start(at)).and_then(|_| film.read_exact(&mut block)).ok().map(|()| block)
            });
            let block = read.await.ok().flatten().ok_or_else(|| io::Error::other("the film cannot be read"));
            let is_last = block.is_err();
            if send.send(block).await.is_err() || is_last {
                return;
            }
            at += count;
        }
    });
    Blocks(receive)
}

struct Blocks(mpsc::Receiver<io::Result<Vec<u8>>>);

impl Stream for Blocks {
    type Item = io::Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_range_is_what_a_player_asks_for() {
        let check = |header: &str, expected| assert_eq!(range(Some(header), 100), expected, "{header}");

        check("bytes=0-", Range::Part(0, 100));
        check("bytes=10-19", Range::Part(10, 20));
        check("bytes=90-1000", Range::Part(90, 100));
        check("bytes=-10", Range::Part(90, 100));
        check("bytes=-1000", Range::Part(0, 100));
        for outside in ["bytes=100-", "bytes=100-200", "bytes=-0"] {
            check(outside, Range::Outside);
        }
        for strange in ["bytes=", "bytes=-", "bytes=9-8", "bytes=0-1,5-6", "items=0-1", "bytes=a-b", ""] {
            check(strange, Range::All);
        }
        assert_eq!(range(None, 100), Range::All);
    }

    proptest! {
        #[test]
        fn no_range_leaves_the_film(header in "(bytes=)?[0-9,-]{0,25}|\\PC{0,20}", bytes in 1_u64..1_000_000) {
            if let Range::Part(from, until) = range(Some(&header), bytes) {
                prop_assert!(from < until && until <= bytes, "{header}");
            }
        }
    }
}
