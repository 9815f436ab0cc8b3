//! The author's own statements: in the store's transaction, or in their own on another database.

use crate::item::database::Database;
use crate::item::failure::{fatal, reading};
use crate::item::link::Link;
use crate::item::query::{Rows, SqlQuery, Values};
use crate::item::{mysql, postgres, sqlite};
use crate::statement::Database as Connection;
use crate::tx::Tx;
use tidemill_domain::item::{ErrorKind, ItemError, Phase, Row};

/// First words of statements that would end the transaction or open another.
const OF_TRANSACTIONS: [&str; 8] =
    ["begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release"];

impl Tx {
    /// Runs your statement on either database and returns how many rows it changed. Placeholders are `$1`, `$2`, …
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let store = tidemill_store::Store::connect("sqlite::memory:").await?;
    /// let mut tx = store.begin().await?;
    /// tx.execute("create table payment (id bigint not null, state text not null)", ()).await?;
    /// tx.execute("insert into payment (id, state) values ($1, $2)", (7, "paid")).await?;
    /// let rows = tx.fetch("select state from payment where id = $1", (7,)).await?;
    /// assert_eq!(rows[0].get::<String>("state")?, "paid");
    /// # Ok::<(), tidemill_domain::item::ItemError>(())
    /// # }).unwrap();
    /// ```
    pub async fn execute(&mut self, sql: &str, values: impl Values) -> Result<u64, ItemError> {
        self.run_statements(&[SqlQuery::with(sql, values)]).await
    }

    /// Runs your query on either database and returns its rows. For many rows, use a reader.
    pub async fn fetch(&mut self, sql: &str, values: impl Values) -> Result<Vec<Row>, ItemError> {
        self.fetch_query(&SqlQuery::with(sql, values), Rows::All).await
    }

    /// The first row of your query on either database; it keeps no other row in memory.
    pub async fn fetch_first(&mut self, query: &SqlQuery) -> Result<Option<Row>, ItemError> {
        Ok(self.fetch_query(query, Rows::First).await?.pop())
    }

    #[crate::boxed]
    async fn fetch_query(&mut self, query: &SqlQuery, rows: Rows) -> Result<Vec<Row>, ItemError> {
        check(std::slice::from_ref(query))?;
        let rows = match self.database() {
            Connection::Postgres(connection) => {
                let plan = postgres::prepare(connection, query.text()).await?;
                query.check_places(plan.places())?;
                postgres::fetch(connection, &plan, query.values(), rows).await?
            }
            Connection::Sqlite(connection) => {
                let plan = sqlite::prepare(connection, query.text()).await?;
                query.check_places(plan.places())?;
                sqlite::fetch(connection, &plan, query.values(), rows).await?
            }
        };
        rows.into_iter().map(|row| row.map_err(|bad| bad.error)).collect()
    }

    /// Runs the author's statements in this transaction, in order, and returns how many rows they changed. A statement
    /// that ends the transaction is an error: later writes would not be covered by it.
    #[crate::boxed]
    pub async fn run_statements(&mut self, statements: &[SqlQuery]) -> Result<u64, ItemError> {
        check(statements)?;
        self.savepoint().await.map_err(|error| ItemError::of(ErrorKind::WRITE, error))?;
        let changed = match self.run_each(statements).await {
            Ok(changed) => changed,
            Err(error) => {
                // The savepoints of the caller must be the newest again. If this fails, so does the caller's next statement.
                let _ = self.rollback_to_savepoint().await;
                let _ = self.release_savepoint().await;
                return Err(error);
            }
        };
        self.release_savepoint().await.map_err(|_| {
            fatal("a statement has ended the transaction that the step commits; what it did may be there")
        })?;
        Ok(changed)
    }

    async fn run_each(&mut self, statements: &[SqlQuery]) -> Result<u64, ItemError> {
        let mut changed = 0;
        for (number, statement) in (1..).zip(statements) {
            let done = match self.database() {
                Connection::Postgres(connection) => postgres::execute(connection, statement).await,
                Connection::Sqlite(connection) => sqlite::execute(connection, statement).await,
            };
            let done = done.and_then(|rows| statement.check_changed(rows));
            changed += done.map_err(|error| error.about(Phase::Write, format_args!("statement {number}")))?;
        }
        Ok(changed)
    }
}

impl Database {
    /// Runs the author's statements in one transaction of their own, and returns how many rows they changed.
    #[crate::boxed]
    pub async fn run_statements(&self, statements: &[SqlQuery]) -> Result<u64, ItemError> {
        check(statements)?;
        let mut link = self.writing_link().await?;
        link.plain("begin").await?;
        let mut changed = 0;
        for (number, statement) in (1..).zip(statements) {
            let done = match &mut link {
                Link::Postgres { connection, .. } => postgres::execute(connection, statement).await,
                Link::Sqlite(connection) => sqlite::execute(connection, statement).await,
                Link::MySql(connection) => mysql::execute(connection, statement).await,
                Link::Shared(_) => Err(fatal("a database in memory has no second connection")),
            };
            let done = done.and_then(|rows| statement.check_changed(rows));
            changed += done.map_err(|error| error.about(Phase::Write, format_args!("statement {number}")))?;
        }
        link.plain("commit").await?;
        Ok(changed)
    }
}

impl Link {
    async fn plain(&mut self, statement: &'static str) -> Result<(), ItemError> {
        let done = match self {
            // Behind a pooler the server connection may hold other clients' statements under the names of ours.
            Self::Postgres { connection, is_pooled: true } if statement == "begin" => {
                sqlx::raw_sql("begin; deallocate all").execute(connection).await.map(drop)
            }
            Self::Postgres { connection, .. } => sqlx::raw_sql(statement).execute(connection).await.map(drop),
            Self::Sqlite(connection) => sqlx::raw_sql(statement).execute(connection).await.map(drop),
            Self::MySql(connection) => sqlx::raw_sql(statement).execute(connection).await.map(drop),
            Self::Shared(_) => Ok(()),
        };
        done.map_err(reading)
    }
}

/// Checks all statements before any of them runs.
fn check(statements: &[SqlQuery]) -> Result<(), ItemError> {
    for (number, statement) in (1..).zip(statements) {
        let word = first_word(statement.text());
        if word.is_empty() {
            return Err(fatal(format!("statement {number} is empty")));
        }
        if OF_TRANSACTIONS.contains(&word.as_str()) {
            return Err(fatal(format!(
                "statement {number} is a {word:?}; the step itself begins and commits its transaction"
            )));
        }
    }
    Ok(())
}

/// Skips comments; in lower case.
pub(crate) fn first_word(text: &str) -> String {
    let mut rest = text.trim_start();
    loop {
        let behind = if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n').map_or("", |(_, behind)| behind)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, behind)| behind)
        } else {
            break;
        };
        rest = behind.trim_start();
    }
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    if end == 0 { rest.chars().take(1).collect() } else { rest[..end].to_ascii_lowercase() }
}

impl SqlQuery {
    /// Whether anything follows a semicolon outside quotes and comments. The body of a trigger does not count.
    pub(crate) fn has_several(&self) -> bool {
        let mut rest = self.text();
        if first_word(rest) == "create" && rest.to_ascii_lowercase().contains("trigger") {
            return false;
        }
        while let Some(at) = rest.find([';', '\'', '"', '`', '[', '-', '/']) {
            let (sign, behind) = rest[at..].split_at(1);
            let until = |end: &str| behind.split_once(end).map_or("", |(_, behind)| behind);
            rest = match sign {
                ";" if !first_word(behind).is_empty() => return true,
                "'" | "\"" | "`" => until(sign),
                "[" => until("]"),
                "-" if behind.starts_with('-') => until("\n"),
                "/" if behind.starts_with('*') => until("*/"),
                _ => behind,
            };
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_ends_the_transaction_is_refused_behind_any_comment() {
        for text in ["commit", "  COMMIT work", "-- all is well\nrollback", "/* a */ /* b */end", "begin"] {
            assert!(check(&[SqlQuery::new(text)]).is_err(), "{text}");
        }
        for text in
            ["update t set a = 'commit'", "select 1", "(select 1)", "insert into commit_log values (1)"]
        {
            assert!(check(&[SqlQuery::new(text)]).is_ok(), "{text}");
        }
        assert!(check(&[SqlQuery::new("-- nothing")]).is_err());
    }

    #[test]
    fn a_second_statement_is_found_and_a_semicolon_in_a_text_is_none() {
        for text in ["insert into t values (1); commit", "select ';';\n/* x */ drop table t", "a;b"] {
            assert!(SqlQuery::new(text).has_several(), "{text}");
        }
        for text in [
            "insert into t values ('a;b', \"c;d\", `e;f`, [g;h])",
            "select 1 -- ; two",
            "select 1 /* ; two */ - 1 / 2",
            "select 1; -- the end",
            "create trigger g after insert on t begin delete from u; delete from v; end",
        ] {
            assert!(!SqlQuery::new(text).has_several(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_looked_at_to_its_end(text in "[a;'\"`\\[\\]*/ 가-]{0,40}") {
            let _answer = (SqlQuery::new(text.as_str()).has_several(), check(&[SqlQuery::new(text)]));
        }
    }
}
