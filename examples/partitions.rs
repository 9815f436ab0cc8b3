//! Copies a table in partitions that run at the same time, in every process that has the job. You can kill any of these
//! processes: another process resumes its partitions, and each row is copied once.
//!
//! ```text
//! cargo run --example partitions -- job run prepare -p rows=100000,long   # creates the tables and fills the first
//! cargo run --example partitions -- job work &                            # as often as you like, on any host
//! cargo run --example partitions -- job run copy                          # starts the job and runs partitions too
//! cargo run --example partitions -- job run verify                        # compares the two
//! ```

use std::process::ExitCode;
use tidemill::prelude::*;

const PARTS: usize = 64;
const CHUNK: usize = 500;

const TABLES: [&str; 2] = [
    "create table origin (id bigint primary key, amount bigint not null)",
    // There is no primary key, so `verify` can find rows that were copied twice.
    "create table parted (id bigint not null, amount bigint not null, process bigint not null)",
];

const FILL: &str = "
    with recursive number(n) as (select cast(1 as bigint) union all select n + 1 from number where n < $1)
    insert into origin (id, amount) select n, n * 7919 % 1000 from number";

/// Counts rows that are missing, wrong or duplicate.
const DIFFERENCES: &str = "
    select (select count(*) from (select id, amount from origin except select id, amount from parted) a)
         + (select count(*) - count(distinct id) from parted) as differences";

fn main() -> ExitCode {
    // Runs once for each partition, and reads its bounds from the context of the partition.
    let part = Step::chunk("part", CHUNK)
        .reader_with(|scope| {
            let bound = |key| scope.context().get_long(key);
            let query = SqlQuery::new("select id, amount from origin where id between $1 and $2");
            let query = query.bind(bound("from")).bind(bound("to"));
            Ok(KeysetReader::new("origin", Database::of(scope.store()), query, ["id"], CHUNK))
        })
        .process(|row: &Row| Ok(Some((row.get::<i64>("id")?, row.get::<i64>("amount")?))))
        .writer_with(|scope| {
            // Stores the process that copied the row, to show that several processes took part.
            let values =
                |&(id, amount): &(i64, i64)| vec![id.into(), amount.into(), std::process::id().into()];
            Ok(SqlWriter::new(scope.store(), "parted", ["id", "amount", "process"], values))
        })
        .build();
    let copy = Step::partitioned("copy", part, RangePartitioner::new("origin", "id")).grid(PARTS).build();
    let prepare = Step::tasklet("tables", |mut scope| async move {
        let rows: i64 = scope.step().text("rows")?.parse()?;
        let tx = scope.tx().await?;
        for table in TABLES {
            tx.execute(table, ()).await?;
        }
        tx.execute(FILL, (rows,)).await?;
        Ok(())
    });
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
        // If the process that started the job dies, another process that has the job restarts it.
        .job(Job::new("copy").step(copy).on_crash(OnCrash::Restart { limit: 100 }))
        .job(Job::new("verify").step(verify))
        .run()
}
