//! Statements on the table of the demo.

use super::{Answer, Connection, Tx};
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn demo_create_payments(&mut self) -> Answer<()> {
        on_either!(self, demo::create_payments())
    }

    pub(crate) async fn demo_count_payments(&mut self) -> Answer<(i64, i64)> {
        on_either!(self, demo::count_payments())
    }
}
