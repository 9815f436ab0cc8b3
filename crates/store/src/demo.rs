//! The table that the demo's job writes.

use crate::statement::{One, statements, stored};

stored! {
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct DemoPayments in ("demo_payment", "rows") {
        pub rows: u64,
        pub distinct: u64 = "different",
    }
}

statements! {
    /// With the columns `id`, `account` and `cents`.
    pub fn Demo::create_payments() -> () {
        postgres { "create table demo_payment (id bigint not null, account text, cents bigint)" }
        sqlite { "create table demo_payment (id integer not null, account text, cents integer)" }
    }

    pub fn Demo::payments() -> One<DemoPayments> {
        "select count(*) as rows, count(distinct id) as different from demo_payment"
    }
}
