//! Ready-made partitioners: one partition per file, or ranges of a column.

use crate::item::reader::matching_files;
use crate::item::{Roots, RootsError};
use crate::job::{Partition, Partitioner, StepScope};
use sha2::{Digest, Sha256};
use std::path::Path;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::partition::ranges;
use tidemill_store::item::Database;

/// Characters of a file name in a key, which has to fit a column.
const NAME_CHARS: usize = 48;

impl Partition {
    /// One for each file that matches a pattern such as `in/*.csv`, sorted; the path is in the context as `file`. No
    /// match is an error.
    ///
    /// ```
    /// # use tidemill_engine::job::{Partition, Step};
    /// # fn worker() -> Step { unimplemented!() }
    /// # let _not_run = || {
    /// let step = Step::partitioned("load", worker(), |_: &_, _| Partition::files("in/*.csv")).build();
    /// # };
    /// ```
    pub fn files(pattern: &str) -> Result<Vec<Self>, ItemError> {
        Ok(matching_files(pattern)?.iter().map(|file| Self::file(file)).collect())
    }

    /// [`files`](Self::files) that must be in these folders.
    pub fn files_within(pattern: &str, roots: &Roots) -> Result<Vec<Self>, ItemError> {
        let files = matching_files(pattern)?;
        for file in &files {
            roots.existing(file).map_err(RootsError::ending)?;
        }
        Ok(files.iter().map(|file| Self::file(file)).collect())
    }

    /// The key depends only on the path, so that other files cannot change it.
    fn file(path: &Path) -> Self {
        let shown = path.to_string_lossy();
        let digest = Sha256::digest(shown.as_bytes());
        let mark: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let allowed = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
        let plain: String = name.chars().map(allowed).take(NAME_CHARS).collect();
        Self::new(format!("{plain}-{mark}")).with("file", shown.as_ref())
    }

    /// At most `count` ranges from `least` to `greatest`; the context has their inclusive bounds as `from` and `to`.
    pub fn ranges(least: i64, greatest: i64, count: usize) -> Vec<Self> {
        let ranges = ranges(least, greatest, count);
        let part = |(n, (from, to)): (usize, (i64, i64))| {
            Self::new(format!("range{n:05}")).with("from", from).with("to", to)
        };
        ranges.into_iter().enumerate().map(part).collect()
    }
}

/// Ranges of an integer column, from the least to the greatest value when the step first runs. A restart keeps them;
/// rows added outside of them belong to another run.
#[derive(Clone, Debug)]
#[must_use]
pub struct RangePartitioner {
    database: Option<Database>,
    table: String,
    column: String,
}

impl RangePartitioner {
    /// Ranges of a column of a table in the job's own database.
    pub fn new(table: impl Into<String>, column: impl Into<String>) -> Self {
        Self { database: None, table: table.into(), column: column.into() }
    }

    tidemill_domain::setters! {
        /// Uses a table of this database.
        pub fn database(self, database: Database) { self.database = Some(database) }
    }
}

impl Partitioner for RangePartitioner {
    fn is_fixed(&self) -> bool {
        true
    }

    async fn partition(&self, scope: &StepScope, grid: usize) -> Result<Vec<Partition>, ItemError> {
        let database = self.database.clone().unwrap_or_else(|| Database::of(scope.store()));
        match database.bounds(&self.table, &self.column).await? {
            Some((least, greatest)) => Ok(Partition::ranges(least, greatest, grid)),
            None => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(partitions: &[Partition]) -> Vec<&str> {
        partitions.iter().map(Partition::key).collect()
    }

    #[test]
    fn each_file_has_a_key_of_its_own_that_a_column_can_hold() {
        let folder = tempfile::tempdir().unwrap();
        let long = "x".repeat(200);
        for name in
            ["a.csv", "b c.csv", "b_c.csv", "sub/a.csv", &format!("{long}1.csv"), &format!("{long}2.csv")]
        {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let pattern = format!("{}/**/*.csv", folder.path().display());

        let partitions = Partition::files(&pattern).unwrap();

        let mut unique = keys(&partitions);
        unique.sort_unstable();
        unique.dedup();
        assert_eq!((partitions.len(), unique.len()), (6, 6), "{unique:?}");
        for key in unique {
            assert_eq!(
                tidemill_domain::job::check_name(&format!("{}:{key}", "w").replace(':', "-")),
                Ok(()),
                "{key}"
            );
            assert!(key.chars().count() <= 60, "{key}");
        }
        std::fs::create_dir(folder.path().join("other")).unwrap();
        std::fs::write(folder.path().join("other/a.csv"), "").unwrap();
        let again = Partition::files(&pattern).unwrap();
        assert_eq!(again.len(), 7);
        assert!(
            partitions.iter().all(|part| again.contains(part)),
            "the same keys when another file has come"
        );
    }

    #[test]
    fn a_pattern_that_matches_nothing_is_an_error() {
        let folder = tempfile::tempdir().unwrap();

        let error = Partition::files(&format!("{}/*.csv", folder.path().display())).unwrap_err();

        assert!(error.to_string().contains("*.csv"), "{error}");
    }

    #[test]
    fn ranges_sort_by_their_keys() {
        let partitions = Partition::ranges(1, 100, 12);

        let mut sorted = keys(&partitions);
        sorted.sort_unstable();
        assert_eq!(keys(&partitions), sorted);
        assert_eq!(partitions[0].context.get_long("from"), Some(1));
        assert_eq!(partitions[11].context.get_long("to"), Some(100));
    }
}
