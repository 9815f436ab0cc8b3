//! Services over HTTP: safe addresses, and no secrets in the file.

use super::Checker;
use crate::model::{At, EndpointFile};
use tidemill_http::{HttpEndpoint, is_reference, is_secret_header};

const REFERENCE: &str = "write env:NAME for an environment variable, or file:PATH for a file";

impl Checker<'_> {
    pub(super) fn endpoint(&mut self, file: &EndpointFile) {
        self.url(file);
        for (name, value) in &file.headers {
            if is_secret_header(&name.value) || is_reference(&value.value) {
                self.reference(value, &format!("the header {}", name.value));
            }
        }
        if let Some(token) = &file.token {
            self.reference(token, "token");
        }
    }

    /// Whoever launches the job must not choose the host, which gets the credentials.
    fn url(&mut self, file: &EndpointFile) {
        let (fixed, values) = file.url.value.split_once("${").unwrap_or((&file.url.value, ""));
        let has_host = fixed.split_once("://").is_some_and(|(_, rest)| rest.contains(['/', '?']));
        if !values.is_empty() && !has_host {
            let what = "the host of a URL is fixed, and no value becomes a part of it";
            self.wrong_inside(&file.url, fixed.len(), 2, what, "write the URL up to its path without ${…}");
            return;
        }
        let mut endpoint = HttpEndpoint::new(fixed);
        if file.allows_plain {
            endpoint = endpoint.allow_plain();
        }
        if let Err(error) = endpoint.check() {
            let fix = "write it as https://host/path; allow_plain_http: true allows http to other hosts";
            self.wrong(&file.url, error.to_string(), fix);
        }
    }

    fn reference(&mut self, text: &At<String>, what: &str) {
        if !is_reference(&text.value) {
            let what = format!("{what} is a secret, and a job file has no secrets");
            self.wrong(text, what, REFERENCE);
        } else if text.value.contains("${") {
            self.wrong(text, "no value becomes a part of a reference to a secret", REFERENCE);
        }
    }
}
