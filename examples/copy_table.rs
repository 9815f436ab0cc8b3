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

fn main() -> ExitCode {
    // A tasklet has one transaction, which commits when it returns `Ok`.
    let prepare = Step::tasklet("tables", |mut scope| async move {
        let rows: i64 = scope.step().text("rows")?.parse()?;
        // Every so many-th row is one that the target refuses.
        let refused = scope.step().text("refused").map_or(Ok(i64::MAX), |text| text.parse())?;
        let tx = scope.tx().await?;
        for table in TABLES {
            tx.execute(table, ()).await?;
        }
        tx.execute(FILL, (rows, refused)).await?;
        Ok(())
    });
    let copy = Step::chunk("rows", CHUNK)
        // Reads page by page behind the last key, so a restart finds its place by the index.
        .reader_with(|scope| {
            let query = SqlQuery::new("select id, name, amount from source");
            Ok(KeysetReader::new("source", Database::of(scope.store()), query, ["id"], CHUNK).count_total())
        })
        // Writes in the transaction of the chunk, in which the position of the reader is saved, too.
        .writer_with(|scope| Ok(SqlWriter::rows(scope.store(), "target", ["id", "name", "amount"])))
        // A chunk with a row that the target refuses is written again, row by row, without that row.
        .skip([ErrorKind::CONSTRAINT], SKIPS_MAX)
        .build();
    // A step that has completed is passed over when its job is run again, unless it says otherwise.
    let verify = Step::tasklet("compare", |mut scope| async move {
        let differences: i64 = scope.tx().await?.fetch(DIFFERENCES, ()).await?[0].get("differences")?;
        match differences {
            0 => Ok(()),
            _ => Err(ItemError::new(ErrorKind::FATAL, format!("the tables differ in {differences} rows"))),
        }
    });
    let verify = verify.allow_start_if_complete();
    App::new()
        .job(Job::new("prepare").step(prepare))
        .job(Job::new("copy").step(copy))
        .job(Job::new("verify").step(verify))
        .run()
}
