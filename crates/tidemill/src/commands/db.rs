//! `tidemill db`: the schema and its migrations.

use crate::commands::prelude::*;
use crate::output::Column;
use clap::ValueEnum;
use tidemill_store::migration::{MigrationState, MigrationStatus, schema_sql};
use tidemill_store::url::Dialect;

#[derive(Subcommand, Debug)]
pub(crate) enum Db {
    /// Apply missing migrations; safe to repeat, to interrupt and to run twice at once
    Migrate,
    /// List migrations; exits with 5 if the schema cannot be used
    Status,
    /// Print the SQL of the schema, to apply it by hand
    Schema {
        /// Kind of database. Default: the configured one
        #[arg(long = "for", value_name = "DATABASE")]
        dialect: Option<DialectName>,
    },
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum DialectName {
    Postgres,
    Sqlite,
}

#[crate::boxed(?Send)]
pub(super) async fn run(arguments: Db, context: &Context) -> Result<Exit> {
    match arguments {
        Db::Migrate => migrate(context).await,
        Db::Status => status(context).await,
        Db::Schema { dialect } => {
            let dialect = match dialect {
                Some(DialectName::Postgres) => Dialect::Postgres,
                Some(DialectName::Sqlite) => Dialect::Sqlite,
                None => context.database_url()?.dialect(),
            };
            write_stdout(schema_sql(dialect))
        }
    }
}

async fn migrate(context: &Context) -> Result<Exit> {
    let store = context.bare_store().await?;
    let mut listing =
        Listing::new("tidemill.migration/v1", &["version", "name"], "The schema is up to date.");
    store
        .migrate(&context.actor(), |migration| {
            // Report each one at once: the next one may take long.
            context.note(&format!("applied migration {} ({})", migration.version, migration.name));
            listing.push(vec![json!(migration.version), json!(migration.name)]);
        })
        .await?;
    context.make_pool_views(&store).await?;
    listing.print(context.output())
}

async fn status(context: &Context) -> Result<Exit> {
    let store = context.bare_store().await?;
    let status = store.migration_status().await?;
    context.note(&format!("database: {}", store.place()));
    let columns: &[Column<MigrationStatus>] = &[
        ("version", |line| json!(line.version)),
        ("name", |line| json!(line.name)),
        ("status", |line| json!(line.state.as_str())),
        ("applied_at", |line| json!(line.applied_at.map(|at| at.to_string()))),
    ];
    Listing::of("tidemill.migration/v1", "No migrations.", &status, columns).print(context.output())?;
    let usable =
        status.iter().all(|line| matches!(line.state, MigrationState::Applied | MigrationState::Newer));
    Ok(if usable { Exit::Ok } else { Exit::Conflict })
}
