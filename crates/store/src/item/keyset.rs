//! A reader that pages by key: each page starts after the last key of the previous one.

use crate::item::database::{Database, Flavour};
use crate::item::failure::fatal;
use crate::item::feed::{Feed, Flow, Sink};
use crate::item::link::{Link, Plan};
use crate::item::pages::{self, NullKeys};
use crate::item::position::{self, reader};
use crate::item::query::SqlQuery;
use crate::item::row::Item;
use tidemill_domain::item::{ItemError, Row, Value};
use tidemill_domain::job::ExecutionContext;

/// Reads page by page in the order of its keys. No statement is open while a chunk is processed, and a restart is
/// cheap: the database finds the key by an index.
///
/// The query is a `select` without order and limit that returns the key columns. Together these must be unique and
/// never null. The reader checks it on the rows that it reads, because it would lose rows otherwise. On PostgreSQL, if
/// there is more than one page and a key is a column that may be null, one more query looks for rows without a key.
#[derive(Debug)]
pub struct KeysetReader {
    database: Database,
    query: SqlQuery,
    keys: Vec<String>,
    page_size: usize,
    is_counted: bool,
    total: Option<u64>,
    context_key: String,
    /// Positions of the key columns in a row.
    indices: Vec<usize>,
    /// The key of the last row returned; empty before the first.
    last: Vec<Value>,
    flow: Flow,
}

reader!(KeysetReader);

impl KeysetReader {
    /// `name` is the key of its saved position.
    pub fn new<K: Into<String>>(
        name: &str,
        database: Database,
        query: SqlQuery,
        keys: impl IntoIterator<Item = K>,
        page_size: usize,
    ) -> Self {
        Self {
            database,
            query,
            keys: keys.into_iter().map(Into::into).collect(),
            page_size: page_size.max(1),
            is_counted: false,
            total: None,
            context_key: format!("{name}.start.after"),
            indices: Vec::new(),
            last: Vec::new(),
            flow: Flow::Idle,
        }
    }

    /// Prepares the query and goes to the saved position.
    #[crate::boxed]
    pub async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        self.flow.close().await;
        if self.keys.is_empty() {
            return Err(fatal("a query that is read by its keys needs at least one key column"));
        }
        self.last = match context.get(&self.context_key) {
            None => Vec::new(),
            Some(saved) => position::from_json(&self.keys, saved).ok_or_else(|| {
                fatal(format!(
                    "{:?} in the execution context is {saved}, which is no key of {}",
                    self.context_key,
                    self.keys.join(", ")
                ))
            })?,
        };
        self.start().await
    }

    /// `None` at the end.
    #[inline]
    pub async fn read(&mut self) -> Result<Option<Row>, ItemError> {
        if matches!(self.flow, Flow::Idle) {
            self.start().await?;
        }
        let Some(item) = self.flow.next().await? else { return Ok(None) };
        let row = row_of(&item);
        self.last.resize(self.keys.len(), Value::Null);
        for (slot, index) in self.last.iter_mut().zip(&self.indices) {
            slot.clone_from(&row.values()[*index]);
        }
        item.map(Some).map_err(|bad| bad.error)
    }

    /// Saves the key of the last row returned.
    pub fn update(&mut self, context: &mut ExecutionContext) {
        if !self.last.is_empty() {
            context.put(&self.context_key, position::to_json(&self.keys, &self.last));
        }
    }

    #[crate::boxed]
    async fn start(&mut self) -> Result<(), ItemError> {
        let mut link = self.database.link().await?;
        // Prepare the query alone first: SQLite reads an unknown key column as a text.
        let columns = link.prepare_query(&self.query).await?;
        self.indices = indices(columns.names(), &self.keys)?;
        let nulls = link.null_keys(&self.query, &columns, &self.indices).await?;
        self.count_if_wanted(&mut link).await?;
        let flavour = self.database.flavour();
        let book = Book {
            flavour,
            query: self.query.clone(),
            keys: self.keys.clone(),
            indices: self.indices.clone(),
            nulls,
            size: self.page_size,
        };
        let after = (!self.last.is_empty()).then(|| self.last.clone());
        let page = book.page(after.as_deref())?;
        let plan = link.prepare(&page.text).await?;
        self.flow = Flow::Running(Feed::start(move |sink| run(link, (page.text, plan), book, after, sink)));
        Ok(())
    }
}

const NO_KEY: &str = "a row without a key cannot be found again; leave such rows out, or use other keys";

/// The constant part of all pages.
struct Book {
    flavour: Flavour,
    query: SqlQuery,
    keys: Vec<String>,
    indices: Vec<usize>,
    nulls: NullKeys,
    size: usize,
}

impl Book {
    /// One row more than a page, so that a duplicate key is noticed even at its end.
    fn page(&self, after: Option<&[Value]>) -> Result<pages::Page, ItemError> {
        let keys = (self.keys.as_slice(), self.nulls);
        pages::keyset(&self.query, self.flavour, keys, after, self.size.saturating_add(1))
    }

    /// PostgreSQL puts rows without a key last, where no page after the first returns them.
    async fn check_hidden(&self, link: &mut Link) -> Result<(), ItemError> {
        let keyless = pages::keyless(&self.query, self.flavour, &self.keys)?;
        if link.scalar(&keyless, self.query.values()).await? == Some(0) {
            return Ok(());
        }
        Err(fatal(format!("there are rows without a value in {}: {NO_KEY}", self.keys.join(" or "))))
    }

    fn key<'a>(&'a self, item: &'a Item) -> impl Iterator<Item = &'a Value> {
        let values = row_of(item).values();
        self.indices.iter().map(|index| &values[*index])
    }

    /// Keeps the rows with distinct keys; returns what is wrong with the next one.
    fn check(&self, items: &mut Vec<Item>) -> Option<ItemError> {
        for at in 0..items.len() {
            let without_value = self.key(&items[at]).position(Value::is_null);
            if let Some(place) = without_value {
                let error = match items.swap_remove(at) {
                    Err(bad) => fatal(format!("{}; it is a key, so reading cannot go on", bad.error.text())),
                    Ok(_) => fatal(format!("column {:?} is null: {NO_KEY}", self.keys[place])),
                };
                items.truncate(at);
                return Some(error);
            }
            if at > 0 && self.key(&items[at - 1]).eq(self.key(&items[at])) {
                let key: Vec<String> = self
                    .keys
                    .iter()
                    .zip(self.key(&items[at]))
                    .map(|(name, value)| format!("{name} = {value}"))
                    .collect();
                items.truncate(at);
                return Some(fatal(format!(
                    "two rows have the key {}: rows behind the end of a page would be lost; add a column \
                     that tells them apart to the keys",
                    key.join(", ")
                )));
            }
        }
        None
    }
}

async fn run(
    mut link: Link,
    mut prepared: (String, Plan),
    book: Book,
    mut after: Option<Vec<Value>>,
    sink: Sink,
) -> Result<(), ItemError> {
    let (is_from_start, mut may_hide) = (after.is_none(), book.nulls == NullKeys::Hidden);
    loop {
        let page = book.page(after.as_deref())?;
        if page.text != prepared.0 {
            prepared = (page.text.clone(), link.prepare(&page.text).await?);
        }
        let mut items = link.fetch(&prepared.1, &page.values).await?;
        let is_last = items.len() <= book.size;
        if may_hide && !(is_from_start && is_last) {
            book.check_hidden(&mut link).await?;
        }
        may_hide = false;
        let wrong = book.check(&mut items);
        items.truncate(book.size);
        after = items.last().map(|last| book.key(last).cloned().collect());
        if !sink.send(items).await {
            return Ok(());
        }
        match wrong {
            Some(error) => return Err(error),
            None if is_last => return Ok(()),
            None => {}
        }
    }
}

fn row_of(item: &Item) -> &Row {
    match item {
        Ok(row) => row,
        Err(bad) => &bad.row,
    }
}

fn indices(columns: &[String], keys: &[String]) -> Result<Vec<usize>, ItemError> {
    let index = |key: &String| {
        columns.iter().position(|column| column == key).ok_or_else(|| {
            fatal(format!("the query has no column {key:?} to be a key; it has {}", columns.join(", ")))
        })
    };
    keys.iter().map(index).collect()
}
