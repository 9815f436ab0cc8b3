//! Reads the items of a JSON API, page by page.
//!
//! The position is the page and the number of items that were read of it. It commits with each chunk. A restart asks for
//! the same page again, so it is exact if the source gives the same page again.

use crate::call::{Answer, Caller, Failed, Request, target};
use crate::page::{Paging, at, type_of};
use crate::{HttpEndpoint, HttpError};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::item::{ErrorKind, ItemError, Row};
use tidemill_domain::job::ExecutionContext;
use tidemill_engine::job::{ItemPlace, ItemReader, ItemStream};

/// How much of an unreadable item is kept with its error.
const RAW_CHARS_MAX: usize = 10_000;

/// Reads the items of a JSON API, page by page.
///
/// ```
/// use tidemill_engine::item::ItemsWriter;
/// use tidemill_engine::job::{Job, Step};
/// use tidemill_http::{HttpEndpoint, HttpReader, Paging};
///
/// let job = Job::new("orders").step(
///     Step::chunk("load", 1000)
///         .reader_with(|_| {
///             let endpoint = HttpEndpoint::new("https://shop.example/api/orders");
///             let paging = Paging::Cursor { path: "next".into(), parameter: Some("cursor".into()) };
///             Ok(HttpReader::<serde_json::Value>::new("orders", endpoint, "data.rows", paging))
///         })
///         .writer(ItemsWriter::default())
///         .build(),
/// );
/// assert!(job.check().is_ok());
/// ```
pub struct HttpReader<T> {
    name: String,
    endpoint: HttpEndpoint,
    items_at: String,
    paging: Paging,
    decode: Decode<T>,
    caller: Option<Caller>,
    /// The current page; none is the first.
    page: Option<String>,
    /// Items of the current page that were read.
    index: usize,
    /// What is left of the current page, once it was fetched.
    fetched: Option<Page>,
    source: Arc<str>,
    /// Items that were read, in all runs.
    count: u64,
}

/// Returns what is wrong, and the item as it came.
type Decode<T> = Box<dyn FnMut(Json) -> Result<T, (String, Json)> + Send>;

struct Page {
    items: std::vec::IntoIter<Json>,
    next: Option<String>,
    /// Of the body.
    hash: u64,
}

impl<T: DeserializeOwned> HttpReader<T> {
    /// Reads items of a serde type. `name` is the key of the saved position and must be unique in the step; `items` is the
    /// path of the list in the body, such as `data.rows`, or empty if the body is the list.
    pub fn new(name: &str, endpoint: HttpEndpoint, items: impl Into<String>, paging: Paging) -> Self {
        let decode = |item: Json| T::deserialize(&item).map_err(|error| (error.to_string(), item));
        Self::decoding(name, endpoint, items.into(), paging, Box::new(decode))
    }
}

impl HttpReader<Row> {
    /// Reads items as rows: each item is an object, whose keys are the columns.
    pub fn rows(name: &str, endpoint: HttpEndpoint, items: impl Into<String>, paging: Paging) -> Self {
        let mut names: Arc<[String]> = Arc::new([]);
        let decode = move |item| match item {
            Json::Object(object) => Ok(Row::from_json(object, &mut names)),
            other => Err((format!("an item is an object, and here is {}", type_of(&other)), other)),
        };
        Self::decoding(name, endpoint, items.into(), paging, Box::new(decode))
    }
}

impl<T> HttpReader<T> {
    fn decoding(
        name: &str,
        endpoint: HttpEndpoint,
        items_at: String,
        paging: Paging,
        decode: Decode<T>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            endpoint,
            items_at,
            paging,
            decode,
            caller: None,
            page: None,
            index: 0,
            fetched: None,
            source: "".into(),
            count: 0,
        }
    }

    fn key(&self, part: &str) -> String {
        format!("{}.{part}", self.name)
    }

    /// The next item as it came.
    async fn next(&mut self) -> Result<Option<Json>, HttpError> {
        loop {
            let previous = match &mut self.fetched {
                Some(page) => {
                    if let Some(item) = page.items.next() {
                        self.index += 1;
                        self.count += 1;
                        return Ok(Some(item));
                    }
                    let Some(next) = page.next.take() else { return Ok(None) };
                    let hash = page.hash;
                    // If the next page cannot be fetched, that is not the end.
                    (self.page, self.index, self.fetched) = (Some(next), 0, None);
                    Some(hash)
                }
                None => None,
            };
            let mut page = self.fetch().await?;
            let (found, read) = (page.items.len(), self.index);
            if found < read {
                return Err(HttpError::Changed { target: self.source.to_string(), found, read });
            }
            if found > 0 && previous == Some(page.hash) {
                let why = "it has the same content as the one before, so the service ignores the parameter";
                return Err(HttpError::NextPage { target: self.source.to_string(), why: why.to_owned() });
            }
            if let Some(last_read) = read.checked_sub(1) {
                page.items.nth(last_read);
            }
            self.fetched = Some(page);
        }
    }

    async fn fetch(&mut self) -> Result<Page, HttpError> {
        let Self { caller, endpoint, paging, page, items_at, source, .. } = self;
        let caller = match caller {
            Some(caller) => caller,
            None => caller.insert(Caller::new(endpoint)?),
        };
        let (target, page) = (source.to_string(), page.as_deref());
        let no_next = |why| HttpError::NextPage { target: target.clone(), why };
        let url = paging.url(&caller.url, page).map_err(no_next)?;
        let request = Request { method: Method::GET, url, content: None };
        let read = |answer, attempts| parsed(answer, &target, attempts);
        let (Answer { headers, body }, mut json) = caller.call(&request, read).await?;
        let found = at(&json, items_at);
        let items = found.and_then(Json::as_array).map(Vec::len).ok_or_else(|| HttpError::NoItems {
            target: target.clone(),
            path: items_at.clone(),
            found: found.map_or("nothing", type_of),
        })?;
        let next = paging.next(&request.url, page, (&headers, &json, items)).map_err(no_next)?;
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        let items = taken(&mut json, items_at);
        Ok(Page { items: items.into_iter(), next, hash: hasher.finish() })
    }
}

/// A body that ends too early is incomplete, and asked for again.
fn parsed(answer: Answer, target: &str, attempts: u32) -> Result<(Answer, Json), Failed> {
    let error = match serde_json::from_slice(&answer.body) {
        Ok(json) => return Ok((answer, json)),
        Err(error) => error,
    };
    let (target, why) = (target.to_owned(), error.to_string());
    if error.is_eof() && !answer.body.is_empty() {
        let error = HttpError::NoAnswer { target, attempts, why };
        return Err(Failed { error, again: Some(Duration::ZERO) });
    }
    let kind = answer.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    Err(HttpError::NotJson { target, kind: kind.unwrap_or("no content type").to_owned(), why }.into())
}

/// The list at a path, which is there.
fn taken(body: &mut Json, path: &str) -> Vec<Json> {
    let mut parts = path.split('.').filter(|part| !part.is_empty());
    let list = parts.try_fold(body, |value, part| match value {
        Json::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
        other => other.get_mut(part),
    });
    match list.map(Json::take) {
        Some(Json::Array(items)) => items,
        _ => Vec::new(),
    }
}

impl<T: 'static> ItemStream for HttpReader<T> {
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        let url = self.endpoint.parsed().map_err(HttpError::of_page)?;
        self.source = target(&url).into();
        let number = |part| context.get_long(&self.key(part)).map(u64::try_from);
        let bad = |_| HttpError::Saved { reader: self.name.clone() }.of_page();
        let index = number("index").transpose().map_err(bad)?.unwrap_or(0);
        let count = number("read.count").transpose().map_err(bad)?.unwrap_or(0);
        let index = usize::try_from(index).map_err(bad)?;
        let page = context.get_text(&self.key("page")).map(str::to_owned);
        (self.page, self.index, self.count) = (page, index, count);
        Ok(())
    }

    /// After the last item of a page, the position is the beginning of the next one.
    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        let next = self.fetched.as_ref().filter(|page| page.items.as_slice().is_empty());
        let (page, index) = match next.and_then(|page| page.next.clone()) {
            Some(next) => (Some(next), 0),
            None => (self.page.clone(), self.index),
        };
        if let Some(page) = page {
            context.put(&self.key("page"), page);
        }
        context.put(&self.key("index"), index as u64);
        context.put(&self.key("read.count"), self.count);
        Ok(())
    }

    async fn close(&mut self, _is_complete: bool) -> Result<(), ItemError> {
        (self.caller, self.fetched) = (None, None);
        Ok(())
    }
}

impl<T: Send + Sync + 'static> ItemReader for HttpReader<T> {
    type Item = T;

    async fn read(&mut self) -> Result<Option<T>, ItemError> {
        let Some(item) = self.next().await.map_err(HttpError::of_page)? else { return Ok(None) };
        (self.decode)(item).map(Some).map_err(|(fault, item)| {
            let place = format!("{} item {}", self.source, self.count);
            let raw: String = item.to_string().chars().take(RAW_CHARS_MAX).collect();
            ItemError::new(ErrorKind::PARSE, fault).at(place, raw)
        })
    }

    fn place(&self) -> Option<ItemPlace> {
        Some(ItemPlace { source: self.source.clone(), unit: "item", number: self.count })
    }
}

impl<T> fmt::Debug for HttpReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpReader").field("source", &self.source).finish_non_exhaustive()
    }
}
