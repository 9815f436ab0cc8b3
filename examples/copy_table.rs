//! Copies one table into another: each row once, however often the copying is interrupted. Rows that the other table
//! refuses are left out: `prepare -p refused=1000` makes every thousandth such a row.
//!
//! ```text
//! cargo run --example copy_table -- job run prepare -p rows=100000,long   # makes the tables and fills the first
//! cargo run --example copy_table -- job run copy                          # kill it, and run it again
//! cargo run --example copy_table -- job run verify                        # compares the two
//! ```

use std::process::ExitCode;
use tidemill::prelude::*;

const CHUNK: usize = 500;

/// Rows that may be left out.
const SKIPS_MAX: u64 = 1000;

const TABLES: [&str; 2] = [
    "create table source (id bigint primary key, name text not null, amount bigint not null)",
    // Without a primary key: a row that came twice would be there twice, and be found.
    "create table target (id bigint not null, name text not null, amount bigint not null check (amount >= 0))",
];

const FILL: &str = "
    with recursive number(n) as (select cast(1 as bigint) union all select n + 1 from number where n < $1)
    insert into source (id, name, amount)
    select n, 'name ' || n, case when n % $2 = 0 then -1 else n * 7919 % 1000 end
    from number";

const DIFFERENCES: &str = "
    with wanted as (select id, name, amount from source where amount >= 0)
    select (select count(*) from (select id, name, amount from wanted except select id, name, amount from target) a)
         + (select count(*) from (select id, name, amount from target except select id, name, amount from wanted) b)
         + (select count(*) - count(distinct id) from target) as differences";

/// Makes the tables. A tasklet is called in a transaction until it says that it is finished.
struct Prepare {
    rows: i64,
    /// Every so many-th row is one that the target refuses.
    refused: i64,
}

impl Tasklet for Prepare {
    async fn execute(&mut self, scope: &mut TaskletScope<'_>) -> Result<RepeatStatus, ItemError> {
        let tx = scope.tx().await?;
        for table in TABLES {
            tx.execute(table, ()).await?;
        }
        tx.execute(FILL, (self.rows, self.refused)).await?;
        Ok(RepeatStatus::Finished)
    }
}

/// Fails when the tables differ.
struct Verify;

impl Tasklet for Verify {
    async fn execute(&mut self, scope: &mut TaskletScope<'_>) -> Result<RepeatStatus, ItemError> {
        let tx = scope.tx().await?;
        let differences: i64 = tx.fetch(DIFFERENCES, ()).await?[0].get("differences")?;
        match differences {
            0 => Ok(RepeatStatus::Finished),
            _ => Err(ItemError::new(ErrorKind::FATAL, format!("the tables differ in {differences} rows"))),
        }
    }
}

fn main() -> ExitCode {
    let prepare = Step::tasklet("tables", |scope| {
        let refused = scope.text("refused").map_or(Ok(i64::MAX), |text| text.parse())?;
        Ok(Prepare { rows: scope.text("rows")?.parse()?, refused })
    });
    let copy = Step::chunk("rows", CHUNK)
        // Reads page by page behind the last key, so a restart finds its place by the index.
        .reader(|scope| {
            let query = SqlQuery::new("select id, name, amount from source");
            Ok(KeysetReader::new("source", Database::of(scope.store()), query, ["id"], CHUNK).count_total())
        })
        // Writes in the transaction of the chunk, in which the position of the reader is saved, too.
        .writer(|scope| Ok(SqlWriter::rows(scope.store(), "target", ["id", "name", "amount"])))
        // A chunk with a row that the target refuses is written again, row by row, without that row.
        .skip([ErrorKind::CONSTRAINT], SKIPS_MAX)
        .build();
    // A step that has completed is passed over when its job is run again, unless it says otherwise.
    let verify = Step::tasklet("compare", |_| Ok(Verify)).allow_start_if_complete();
    App::new()
        .job(Job::new("prepare").step(prepare))
        .job(Job::new("copy").step(copy))
        .job(Job::new("verify").step(verify))
        .run()
}
