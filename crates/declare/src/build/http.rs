//! Readers and writers over HTTP.

use super::endpoint::{Make, READ};
use super::names::rendered;
use super::{Builder, Built};
use crate::model::{ChunkFile, EndpointFile, HttpReadFile, HttpWriteFile, Names};
use crate::template::Template;
use tidemill_domain::item::{ItemError, Row, Value};
use tidemill_engine::item::{BoxReader, BoxWriter};
use tidemill_http::{HttpEndpoint, HttpReader, HttpWriter, encoded, is_reference, secret};

/// Only the author refers to secrets: a value of a parameter that looks like a reference is sent as it is.
enum Header {
    Text(Template),
    Secret(String),
}

impl Builder<'_> {
    pub(super) fn http_reader(&self, file: &HttpReadFile, chunk: &ChunkFile) -> Built<Make<BoxReader<Row>>> {
        let (endpoint, file) = (self.endpoint(&file.endpoint, chunk)?, file.clone());
        Ok(Box::new(move |scope, names| {
            let endpoint = endpoint(scope, names)?;
            Ok(BoxReader::new(HttpReader::rows(READ, endpoint, &file.items, file.paging.clone())))
        }))
    }

    pub(super) fn http_writer(
        &self,
        name: String,
        file: &HttpWriteFile,
        chunk: &ChunkFile,
    ) -> Built<Make<BoxWriter<Row>>> {
        let (endpoint, file) = (self.endpoint(&file.endpoint, chunk)?, file.clone());
        Ok(Box::new(move |scope, names| {
            let mut writer = HttpWriter::rows(&name, scope, endpoint(scope, names)?);
            if let Some(name) = &file.key_header {
                writer = writer.key_header(name);
            }
            Ok(BoxWriter::new(writer.method(file.method).batch(file.batch)))
        }))
    }

    fn endpoint(&self, file: &EndpointFile, chunk: &ChunkFile) -> Built<Make<HttpEndpoint>> {
        let url = self.path(&file.url, Some(chunk))?;
        let headers = file.headers.iter().map(|(name, text)| {
            let value = match is_reference(&text.value) {
                true => Header::Secret(text.value.clone()),
                false => Header::Text(self.template(text)?),
            };
            Ok((name.value.clone(), value))
        });
        let (headers, file) = (headers.collect::<Built<Vec<_>>>()?, file.clone());
        Ok(Box::new(move |scope, names| {
            let mut endpoint =
                HttpEndpoint::new(url.rendered(scope, &in_url(names))?).retry(file.retry.clone());
            for (name, text) in &headers {
                let value = match text {
                    Header::Text(template) => rendered(template, names)?,
                    Header::Secret(reference) => secret(reference).map_err(ItemError::fatal)?,
                };
                endpoint = endpoint.header(name, value);
            }
            if let Some(token) = &file.token {
                let token = secret(&token.value).map_err(ItemError::fatal)?;
                endpoint = endpoint.header("authorization", format!("Bearer {token}"));
            }
            if file.allows_plain {
                endpoint = endpoint.allow_plain();
            }
            if let Some(rate) = file.rate {
                endpoint = endpoint.rate(rate);
            }
            if let Some(timeout) = file.timeout {
                endpoint = endpoint.timeout(timeout);
            }
            Ok(match file.max_bytes {
                Some(max) => endpoint.max_bytes(max),
                None => endpoint,
            })
        }))
    }
}

/// The values as parts of a URL.
fn in_url(names: &Names) -> Names {
    let in_url = |value: &Value| match value {
        Value::Null => Value::Null,
        value => Value::Text(encoded(&value.to_string())),
    };
    names.iter().map(|(name, value)| (name.clone(), in_url(value))).collect()
}
