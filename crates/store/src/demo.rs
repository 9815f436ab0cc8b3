//! The table that the demo's job writes.

use crate::error::StoreError;
use crate::tx::Demo;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DemoPayments {
    pub rows: u64,
    pub distinct: u64,
}

impl Demo<'_> {
    /// With the columns `id`, `account` and `cents`.
    pub async fn create_payments(&mut self) -> Result<(), StoreError> {
        Ok(self.demo_create_payments().await?)
    }

    pub async fn payments(&mut self) -> Result<DemoPayments, StoreError> {
        let (rows, distinct) = self.demo_count_payments().await?;
        Ok(DemoPayments { rows: rows.unsigned_abs(), distinct: distinct.unsigned_abs() })
    }
}
