//! Statements on `demo_payment`, which the demo creates.

use crate::statement::{One, statements};

statements! {
    /// With the columns `id`, `account` and `cents`.
    pub fn Demo::create_payments() -> () {
        postgres {
            "create table demo_payment (id bigint not null, account text, cents bigint)"
        }
        sqlite {
            "create table demo_payment (id integer not null, account text, cents integer)"
        }
    }

    fn demo_count_payments() -> One<(i64, i64)> {
        "select count(*), count(distinct id) from demo_payment"
    }
}
