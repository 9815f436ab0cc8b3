//! Parquet, Arrow and Avro files as the source and the target of a step.
//!
//! [`ColumnarReader`] reads them row by row, [`ColumnarWriter`] writes columns of the types that you name, and
//! [`row_groups`] divides a step by the parts of its files. All three formats go through the record batches of Arrow:
//! `value` turns their cells into values, `batch` turns rows into them.

#[warn(missing_docs)]
pub mod reader;
#[warn(missing_docs)]
pub mod writer;

mod arrow;
mod avro;
mod batch;
mod open;
mod page;
mod partition;
mod size;
mod value;

pub use partition::row_groups;
pub use reader::{Columnar, ColumnarReader};
pub use writer::{ColumnarWriter, row_writer, writer};
