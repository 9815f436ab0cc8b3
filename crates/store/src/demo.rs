//! The table that the demo's job writes.

use crate::error::Result;
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
