//! The picture of a render. The file name follows from the id of the render and the folder from the configuration, so no
//! request can name another file.

use crate::api::render::find;
use crate::api::{Id, Read};
use crate::problem::Problem;
use crate::state::State;
use crate::system::open_plainly;
use axum::extract::State as Given;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::fs;
use std::io::Read as _;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::render::RenderId;
use tidemill_engine::render::places::noted_poster;
use tidemill_store::render::RenderRecord;
use tokio::sync::Semaphore;

/// A JPEG frame has some hundred kilobytes.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A NAS that hangs blocks its readers. The limit keeps threads free for others.
static READERS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(16)));

const PATIENCE: Duration = Duration::from_secs(5);

/// The path of the picture; none without a picture or a configured folder.
pub(super) fn place(state: &State, record: &RenderRecord) -> Option<String> {
    let folder = state.inner().parts.render.posters.as_ref()?;
    noted_poster(folder, record.id(), record.poster_path.as_ref()?).map(|place| place.to_string())
}

pub(crate) async fn file(
    Given(state): Given<State>,
    Id(id): Id,
    Read(mut tx): Read,
) -> Result<Response, Problem> {
    let record = find(&mut tx, RenderId::new(id)).await?;
    drop(tx);
    let missing = || Problem::not_found("a picture of this render");
    let place = place(&state, &record).ok_or_else(missing)?;
    let bytes = in_time(move || read(&place)).await?.ok_or_else(missing)?;
    let kind = kind(&bytes).ok_or_else(missing)?;
    // A retry changes the picture at the same address.
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "private, max-age=60")];
    Ok((headers, bytes).into_response())
}

/// The result of reading from the NAS; none if that fails or takes too long.
pub(super) async fn in_time<T: Send + 'static>(
    read: impl FnOnce() -> Option<T> + Send + 'static,
) -> Result<Option<T>, Problem> {
    let Ok(Ok(thread)) = tokio::time::timeout(PATIENCE, Arc::clone(&READERS).acquire_owned()).await else {
        let remedy = "try again later, and check that the folders of renders are reachable";
        let detail = "the NAS does not answer";
        return Err(Problem::with_status(StatusCode::SERVICE_UNAVAILABLE, Code::Unexpected, detail, remedy));
    };
    let reading = tokio::task::spawn_blocking(move || {
        let found = read();
        drop(thread);
        found
    });
    Ok(tokio::time::timeout(PATIENCE, reading).await.ok().and_then(Result::ok).flatten())
}

/// Opens a regular file. Returns its size too.
pub(super) fn open_file(place: &str) -> Option<(fs::File, u64)> {
    let file = open_plainly(place)?;
    let found = file.metadata().ok().filter(fs::Metadata::is_file)?;
    Some((file, found.len()))
}

/// Reads a regular file of at most `BYTES_MAX` bytes.
fn read(place: &str) -> Option<Vec<u8>> {
    let (file, _) = open_file(place)?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= BYTES_MAX).then_some(bytes)
}

/// The media type, from the first bytes.
fn kind(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn neither_links_nor_pipes_nor_what_is_too_large_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        fs::write(at("a.jpg"), b"picture").unwrap();
        std::os::unix::fs::symlink(at("a.jpg"), at("link.jpg")).unwrap();
        mknodat(CWD, at("pipe.jpg"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        fs::File::create(at("large.jpg")).unwrap().set_len(BYTES_MAX + 1).unwrap();

        assert_eq!(read(&at("a.jpg")), Some(b"picture".to_vec()));
        for other in ["link.jpg", "pipe.jpg", "large.jpg", "none.jpg", "."] {
            assert_eq!(read(&at(other)), None, "{other}");
        }
    }

    #[test]
    fn only_pictures_are_pictures() {
        assert_eq!(kind(&[0xff, 0xd8, 0xff, 0xe0]), Some("image/jpeg"));
        assert_eq!(kind(b"\x89PNG\r\n"), Some("image/png"));
        for other in [&b"<svg xmlns"[..], b"<html>", b"", b"root:x:0:0"] {
            assert_eq!(kind(other), None);
        }
    }
}
