//! A reader that pages by counting rows.

use crate::item::database::{Database, Flavour};
use crate::item::failure::fatal;
use crate::item::feed::{Feed, Flow, Sink};
use crate::item::link::{Link, Plan};
use crate::item::pages;
use crate::item::position::{Count, counting_reader};
use crate::item::query::SqlQuery;
use tidemill_domain::item::{ItemError, Row};
use tidemill_domain::job::ExecutionContext;

/// Reads page by page with `limit` and `offset`, so that no statement is open while a chunk is processed.
///
/// The query needs an `order by` that is unique, and rows before the position must stay. The database walks over all
/// earlier rows for each page: for large tables use a [`KeysetReader`](crate::item::KeysetReader).
#[derive(Debug)]
pub struct OffsetReader {
    database: Database,
    query: SqlQuery,
    page_size: usize,
    is_counted: bool,
    total: Option<u64>,
    count: Count,
    flow: Flow,
}

counting_reader!(OffsetReader);

impl OffsetReader {
    /// `name` is the key of its saved position.
    pub fn new(name: &str, database: Database, query: SqlQuery, page_size: usize) -> Self {
        let (page_size, count) = (page_size.max(1), Count::new(name));
        Self { database, query, page_size, is_counted: false, total: None, count, flow: Flow::Idle }
    }

    /// Prepares the query and goes to the saved position.
    #[crate::boxed]
    pub async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        self.flow.close().await;
        if !self.query.is_ordered() {
            return Err(fatal(
                "a query that is read by offset needs an order by: without one, each page may have another \
                 order, and rows would be read twice or never",
            ));
        }
        self.count.load(context)?;
        self.start().await
    }

    #[crate::boxed]
    async fn start(&mut self) -> Result<(), ItemError> {
        let mut link = self.database.link().await?;
        link.prepare_query(&self.query).await?;
        self.count_if_wanted(&mut link).await?;
        let flavour = self.database.flavour();
        let (query, start, size) = (self.query.clone(), self.count.rows(), self.page_size);
        let plan = link.prepare(&pages::offset(&query, flavour, start, size).text).await?;
        self.flow =
            Flow::Running(Feed::start(move |sink| run(link, plan, flavour, query, start, size, sink)));
        Ok(())
    }
}

async fn run(
    mut link: Link,
    plan: Plan,
    flavour: Flavour,
    query: SqlQuery,
    mut start: u64,
    size: usize,
    sink: Sink,
) -> Result<(), ItemError> {
    loop {
        let page = pages::offset(&query, flavour, start, size);
        let items = link.fetch(&plan, &page.values).await?;
        let rows = items.len();
        if !sink.send(items).await || rows < size {
            return Ok(());
        }
        start = start.saturating_add(u64::try_from(rows).unwrap_or(u64::MAX));
    }
}
