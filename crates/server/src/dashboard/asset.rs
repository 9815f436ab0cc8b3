//! The style and the script of the pages. They are part of the program, so a page loads nothing from other sites.

use crate::problem::Problem;
use crate::state::State;
use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

pub(super) const STYLE: Asset = Asset {
    name: "tidemill.css",
    kind: "text/css; charset=utf-8",
    text: include_str!("assets/tidemill.css"),
};
pub(super) const SCRIPT: Asset = Asset {
    name: "tidemill.js",
    kind: "text/javascript; charset=utf-8",
    text: include_str!("assets/tidemill.js"),
};

#[derive(Debug)]
pub(super) struct Asset {
    name: &'static str,
    kind: &'static str,
    pub(super) text: &'static str,
}

/// Hash of the files, so that browsers do not use an old style with a new program.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let hash = Sha256::new().chain_update(STYLE.text).chain_update(SCRIPT.text).finalize();
    hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
});

pub(super) fn url(state: &State, asset: &Asset) -> String {
    state.path(&format!("/assets/{}?v={}", asset.name, *VERSION))
}

/// Browsers may cache the file forever, because its address contains the hash.
pub(crate) async fn file(Path(name): Path<String>) -> Result<Response, Problem> {
    let found = [STYLE, SCRIPT].into_iter().find(|asset| asset.name == name);
    let asset = found.ok_or_else(|| Problem::not_found("this file"))?;
    let cache = "public, max-age=31536000, immutable";
    Ok(([(header::CONTENT_TYPE, asset.kind), (header::CACHE_CONTROL, cache)], asset.text).into_response())
}

#[cfg(test)]
mod tests;
