//! Services that a step reads or writes over HTTP.

use super::At;
use std::time::Duration;
use tidemill_http::{Batch, HttpRetry, Paging, Rate};

/// How a service is called.
#[derive(Clone, PartialEq, Debug)]
pub struct EndpointFile {
    /// A template; values are encoded, and cannot be a part of the host.
    pub url: At<String>,
    /// Templates, or references to secrets: `env:NAME` or `file:PATH`.
    pub headers: Vec<(At<String>, At<String>)>,
    /// A reference to a secret, which is sent as a bearer token.
    pub token: Option<At<String>>,
    pub allows_plain: bool,
    pub rate: Option<Rate>,
    pub retry: HttpRetry,
    pub timeout: Option<Duration>,
    pub max_bytes: Option<usize>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct HttpReadFile {
    pub endpoint: EndpointFile,
    /// Path of the list in the body; empty if the body is the list.
    pub items: String,
    pub paging: Paging,
}

#[derive(Clone, PartialEq, Debug)]
pub struct HttpWriteFile {
    pub endpoint: EndpointFile,
    pub method: &'static str,
    pub batch: Batch,
    pub key_header: Option<String>,
}
