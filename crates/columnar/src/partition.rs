//! Dividing a step by the row groups of Parquet files and the record batches of Arrow files.

use crate::open::{count_groups, guarded};
use std::path::Path;
use tidemill_domain::item::ItemError;
use tidemill_engine::item::{Roots, Source};
use tidemill_engine::job::Partition;

/// One partition for each row group of the files that match a pattern. The context has the path as `file` and the number of
/// the row group, from 0, as `row_group`; for an object also its version as `version`.
pub fn row_groups(pattern: &str, roots: Option<&Roots>) -> Result<Vec<Partition>, ItemError> {
    let files = match roots {
        Some(roots) => Partition::files_within(pattern, roots),
        None => Partition::files(pattern),
    }?;
    let mut partitions = Vec::new();
    for file in files {
        let path = file.context().get_text("file").unwrap_or_default().to_owned();
        let cannot_divide =
            |fault| ItemError::fatal(format!("the input file {path} cannot be divided: {fault}"));
        let source = Source::at(Path::new(&path), roots)?;
        let groups = guarded(|| count_groups(&source)).flatten().map_err(cannot_divide)?;
        let part = |group: usize| {
            let part = Partition::new(format!("{}-{group:05}", file.key()));
            let part = part.with("file", path.as_str()).with("row_group", group);
            match source.version() {
                Some(version) => part.with("version", version),
                None => part,
            }
        };
        partitions.extend((0..groups).map(part));
    }
    Ok(partitions)
}
