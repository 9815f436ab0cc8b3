//! Copies one table into another. Each row is copied once, however often the job is interrupted. The job skips rows
//! that the target table refuses: with `prepare -p refused=1000`, every thousandth row is refused.
//!
//! ```text
//! cargo run --example copy_table -- job run prepare -p rows=100000,long   # creates the tables and fills the first
//! cargo run --example copy_table -- job run copy                          # kill it, and run it again
//! cargo run --example copy_table -- job run verify                        # compares the two
//! ```

use std::process::ExitCode;
use tidemill::prelude::*;

const CHUNK: usize = 500;

/// The maximum number of skipped rows.
const SKIPS_MAX: u64 = 1000;

const TABLES: [&str; 2] = [
    "create table source (id bigint primary key, name text not null, amount bigint not null)",
    // There is no primary key, so `verify` can find rows that were copied twice.
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
        // The target refuses every row whose id is a multiple of this number.
        let refused = scope.step().text("refused").map_or(Ok(i64::MAX), |text| text.parse())?;
        let tx = scope.tx().await?;
        for table in TABLES {
            tx.execute(table, ()).await?;
        }
        tx.execute(FILL, (rows, refused)).await?;
        Ok(())
    });
    let copy = Step::chunk("rows", CHUNK)
        // Reads page by page after the last key, so a restart finds its position by the index.
        .reader_with(|scope| {
            let query = SqlQuery::new("select id, name, amount from source");
            Ok(KeysetReader::new("source", Database::of(scope.store()), query, ["id"], CHUNK).count_total())
        })
        // Writes in the transaction of the chunk, which also saves the position of the reader.
        .writer_with(|scope| Ok(SqlWriter::rows(scope.store(), "target", ["id", "name", "amount"])))
        // If the target refuses a row, the chunk is written again, row by row, without that row.
        .skip([ErrorKind::CONSTRAINT], SKIPS_MAX)
        .build();
    // When a job is run again, it skips completed steps, except those with `allow_start_if_complete`.
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
