//! Services that are read or written over HTTP.

use super::fields::shown;
use super::{Fields, Reader, Table, Truth, all, tables};
use crate::document::{Content, Node};
use crate::model::{EndpointFile, HttpReadFile, HttpWriteFile};
use std::time::Duration;
use tidemill_http::{Batch, HttpRetry, Paging, Rate};

tables! {
    READ = "http to read" ["url" "items" "page" "headers" "token" "rate" "retry" "timeout" "max_bytes" "allow_plain_http"]
        "http: { url: \"https://shop.example/api/orders\", items: data, page: { cursor: next, parameter: cursor } }";
    WRITE = "http to write" ["url" "method" "batch" "idempotency_header" "headers" "token" "rate" "retry" "timeout" "max_bytes" "allow_plain_http"]
        "http: { url: \"https://crm.example/api/contacts\" }";
    PAGE = "page" ["cursor" "parameter" "number" "first"]
        "page: { cursor: next, parameter: cursor }, page: { number: page } or page: link";
    RETRY = "retry of http" ["statuses" "attempts" "backoff"]
        "retry: { statuses: [429, 502, 503, 504], attempts: 5, backoff: 1s }";
}

const METHODS: [(&str, &str); 3] = [("POST", "POST"), ("PUT", "PUT"), ("PATCH", "PATCH")];

impl Reader<'_> {
    pub(super) fn http_read(&mut self, node: &Node) -> Option<HttpReadFile> {
        let fields = self.table(node, "http", READ)?;
        let endpoint = self.endpoint(&fields);
        let items = self.text_of(&fields, "items").map_or_else(String::new, |items| items.value);
        let paging = fields.get("page").map_or(Some(Paging::Single), |node| self.paging(node));
        Some(HttpReadFile { endpoint: endpoint?, items, paging: paging? })
    }

    pub(super) fn http_write(&mut self, node: &Node) -> Option<HttpWriteFile> {
        let fields = self.table(node, "http", WRITE)?;
        let endpoint = self.endpoint(&fields);
        let method = fields.get("method").map_or(Some("POST"), |node| self.word(node, "method", &METHODS));
        let batches = Batch::ALL.map(|batch| (batch.as_str(), batch));
        let batch = fields.get("batch").map_or(Some(Batch::Each), |node| self.word(node, "batch", &batches));
        let key_header = self.text_of(&fields, "idempotency_header").map(|name| name.value);
        Some(HttpWriteFile { endpoint: endpoint?, method: method?, batch: batch?, key_header })
    }

    fn endpoint(&mut self, fields: &Fields<'_>) -> Option<EndpointFile> {
        let url = self.required_text(fields, "url");
        let headers = fields.get("headers").map_or(Some(Vec::new()), |node| {
            self.headers(node, "texts", "headers: { Accept-Language: ko, X-Api-Key: \"env:SHOP_KEY\" }")
        });
        let token = self.text_of(fields, "token");
        let allows_plain = self.truth_of(fields, "allow_plain_http", Truth::No);
        let rate = fields.get("rate").map_or(Some(None), |node| self.rate(node).map(Some));
        let retry = fields.get("retry").map_or(Some(HttpRetry::default()), |node| self.http_retry(node));
        let bounds = Duration::from_secs(1)..=Duration::from_secs(3600);
        let timeout = fields.get("timeout").and_then(|node| self.duration(node, "timeout", bounds));
        let max_bytes = self.number_of(fields, "max_bytes", 1024..=1 << 30);
        let (url, headers, rate, retry) = (url?, headers?, rate?, retry?);
        Some(EndpointFile { url, headers, token, allows_plain, rate, retry, timeout, max_bytes })
    }

    fn paging(&mut self, node: &Node) -> Option<Paging> {
        if matches!(&node.content, Content::Scalar(text) if text == "link") {
            return Some(Paging::Link);
        }
        let fields = self.table(node, "page", PAGE)?;
        let mut text = |name: &str| self.text_of(&fields, name).map(|text| text.value);
        let (cursor, parameter, number) = (text("cursor"), text("parameter"), text("number"));
        let first = self.number_of(&fields, "first", 0..=1_000_000);
        match (cursor, number, parameter, first) {
            (Some(path), None, parameter, None) => Some(Paging::Cursor { path, parameter }),
            (None, Some(parameter), None, first) => {
                Some(Paging::Number { parameter, first: first.unwrap_or(1) })
            }
            _ => {
                let what = "pages follow by cursor (with parameter), by number (with first), or by link";
                self.wrong(node, what, format!("write {}", PAGE.example));
                None
            }
        }
    }

    fn rate(&mut self, node: &Node) -> Option<Rate> {
        let found = match &node.content {
            Content::Scalar(text) => text.parse().ok(),
            _ => None,
        };
        if found.is_none() {
            let what = format!("rate is a number of requests per s, m or h, and here is {}", shown(node));
            self.wrong(node, what, "write rate: 10/s; at least 1/h, at most 1000/s");
        }
        found
    }

    fn http_retry(&mut self, node: &Node) -> Option<HttpRetry> {
        let fields = self.table(node, "retry", RETRY)?;
        let usual = HttpRetry::default();
        let statuses = fields.get("statuses").map_or(Some(usual.statuses), |node| {
            let items = self.items(node, "statuses")?;
            all(items.iter().map(|item| self.number(item, "a status", 400..=599)))
        });
        let attempts = self.number_of(&fields, "attempts", 1..=1000).unwrap_or(usual.attempts);
        let bounds = Duration::from_millis(1)..=Duration::from_secs(60);
        let backoff = fields.get("backoff").and_then(|node| self.duration(node, "backoff", bounds));
        Some(HttpRetry { statuses: statuses?, attempts, backoff: backoff.unwrap_or(usual.backoff) })
    }
}
