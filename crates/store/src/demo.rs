//! The table that the demo's job writes.

use crate::error::Result;
use crate::statement::{One, statements};
use crate::tx::Demo;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DemoPayments {
    pub rows: u64,
    pub distinct: u64,
}

impl Demo<'_> {
    pub async fn payments(&mut self) -> Result<DemoPayments> {
        let (rows, distinct) = self.demo_count_payments().await?;
        Ok(DemoPayments { rows: rows.unsigned_abs(), distinct: distinct.unsigned_abs() })
    }
}

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
