//! Whoever lacks a right on the table is told which, on which table, and by which statement it is given.

use super::{TRANSFER_EVENTS, attached, name, table};
use crate::Bench;
use crate::outbox::run;
use tidemill_store::outbox::AttachError;
use tidemill_store::{Store, StoreOptions};

/// A role of this test's own, and a store that has logged in as it.
struct Role {
    name: String,
    store: Store,
}

impl Role {
    /// One that may do nothing with the table yet.
    async fn new(bench: &Bench) -> Self {
        let (scheme, rest) = bench.scratch.url().split_once("://").unwrap();
        let (_, place) = rest.split_once('@').unwrap();
        // Roles belong to the whole server, and nobody else has a database of this name.
        let database = place.split_once('/').unwrap().1.split('?').next().unwrap();
        let name = format!("role_of_{database}");
        run(&bench.store, &format!("create role {name} login")).await;
        let url = format!("{scheme}://{name}@{place}");
        let store = Store::open(url.parse().unwrap(), &StoreOptions::default()).await.unwrap();
        Self { name, store }
    }

    /// What keeps it from serving the table, as it is told.
    async fn told(&self) -> Vec<String> {
        let faults = self.store.table_faults(&table()).await.unwrap();
        faults.iter().map(ToString::to_string).collect()
    }

    async fn end(self, bench: &Bench) {
        self.store.close().await;
        run(&bench.store, &format!("drop owned by {}", self.name)).await;
        run(&bench.store, &format!("drop role {}", self.name)).await;
    }
}

#[tokio::test]
async fn a_privilege_that_is_missing_is_named_with_the_statement_that_gives_it() {
    let Some(bench) = attached().await else { return };
    let role = Role::new(&bench).await;
    let user = &role.name;

    let all = role.told().await;
    run(&bench.store, &format!("grant select on transfer_events to {user}")).await;
    let one = role.told().await;
    let examined = role.store.examine_table(&table()).await.unwrap_err();
    run(&bench.store, &format!("grant update on transfer_events to {user}")).await;
    let none = role.told().await;
    run(&bench.store, "revoke usage on schema public from public").await;
    let schema = role.told().await;

    let lacking = |what: &str| {
        format!(
            "{user} lacks the privilege {what} on public.transfer_events: \
             grant {what} on \"public\".\"transfer_events\" to \"{user}\""
        )
    };
    assert_eq!(all, [lacking("select, update")]);
    assert_eq!(one, [lacking("update")]);
    assert_eq!(examined.why(), Some(lacking("update")));
    assert_eq!(none, [] as [&str; 0]);
    let expected = format!(
        "{user} lacks the privilege usage on the schema public: grant usage on schema \"public\" to \"{user}\""
    );
    assert_eq!(schema, [expected]);
    role.end(&bench).await;
}

#[tokio::test]
async fn whoever_does_not_own_the_table_is_told_what_its_owner_has_to_run() {
    let Some(bench) = Bench::postgres().await else { return };
    run(&bench.store, TRANSFER_EVENTS).await;
    let role = Role::new(&bench).await;
    run(&bench.store, &format!("grant select, update on transfer_events to {}", role.name)).await;

    let refused = role.store.index_attached(&name()).await.unwrap_err();

    let AttachError::NotFit { faults, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(
        faults[0].what,
        "only the owner of public.transfer_events may make the index tidemill_transfer_events_slot"
    );
    let statement = faults[0].remedy.strip_prefix("let the owner run: ").unwrap();
    assert!(statement.starts_with("create index concurrently"), "{statement}");
    // What was said to help does.
    bench.store.index_attached(&name()).await.unwrap();
    assert_eq!(role.store.index_attached(&name()).await.unwrap(), Vec::<String>::new());
    role.end(&bench).await;
}
