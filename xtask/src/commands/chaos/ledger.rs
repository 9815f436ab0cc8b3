//! What the database says about the executions of a job, and whether it agrees with the rows.

/// One execution: its status, and how many rows it counted as written and as skipped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) written: u64,
    pub(super) skipped: u64,
}

/// What a copy has to come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Expected {
    pub(super) rows: u64,
    /// How many of them the target refuses.
    pub(super) refused: u64,
}

/// What is wrong with a copy that has come to its end.
pub(super) fn faults(entries: &[Entry], wanted: Expected) -> Vec<String> {
    let mut faults = Vec::new();
    let written: u64 = entries.iter().map(|entry| entry.written).sum();
    let skipped: u64 = entries.iter().map(|entry| entry.skipped).sum();
    let accepted = wanted.rows - wanted.refused;
    if written != accepted {
        faults.push(format!("{written} rows were counted as written, not {accepted}"));
    }
    if skipped != wanted.refused {
        faults.push(format!("{skipped} rows were counted as skipped, not {}", wanted.refused));
    }
    // A process that was killed after its last commit has completed as well; the next one then had nothing to do.
    if !entries.iter().any(|entry| entry.status == "COMPLETED") {
        faults.push("no execution has completed".to_owned());
    }
    for entry in entries.iter().filter(|entry| !matches!(entry.status.as_str(), "COMPLETED" | "FAILED")) {
        faults.push(format!("execution {} is {}", entry.id, entry.status));
    }
    faults
}

/// The values of one column of a listing as CSV.
pub(super) fn column(csv: &str, name: &str) -> Result<Vec<String>, String> {
    let mut rows = rows(csv).into_iter();
    let header = rows.next().unwrap_or_default();
    let index = header.iter().position(|column| column == name);
    let index = index.ok_or_else(|| format!("there is no column {name:?} in {header:?}"))?;
    Ok(rows.map(|row| row.get(index).cloned().unwrap_or_default()).collect())
}

/// The rows of a CSV text. Quoted fields can have commas and line breaks; quotes within them are dropped.
fn rows(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut is_quoted) = (Vec::new(), Vec::new(), String::new(), false);
    for character in csv.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut field)),
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            other => field.push(other),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(status: &str, written: u64) -> Entry {
        Entry { id: "7".to_owned(), status: status.to_owned(), written, skipped: 0 }
    }

    fn faults(entries: &[Entry], rows: u64) -> Vec<String> {
        super::faults(entries, Expected { rows, refused: 0 })
    }

    #[test]
    fn a_copy_that_is_exact_has_no_faults() {
        assert_eq!(faults(&[entry("COMPLETED", 30), entry("FAILED", 0), entry("FAILED", 70)], 100), [""; 0]);
        assert_eq!(faults(&[entry("COMPLETED", 0), entry("COMPLETED", 100)], 100), [""; 0]);
    }

    #[test]
    fn each_fault_is_told() {
        assert_eq!(faults(&[entry("COMPLETED", 101)], 100), ["101 rows were counted as written, not 100"]);
        assert_eq!(faults(&[entry("FAILED", 100)], 100), ["no execution has completed"]);
        assert_eq!(faults(&[entry("STARTED", 0), entry("COMPLETED", 1)], 1), ["execution 7 is STARTED"]);
    }

    #[test]
    fn rows_that_are_refused_are_skipped_once_and_not_written() {
        let skipping = |skipped| Entry { skipped, ..entry("COMPLETED", 90) };
        let wanted = Expected { rows: 100, refused: 10 };

        assert_eq!(super::faults(&[skipping(10)], wanted), [""; 0]);
        assert_eq!(super::faults(&[skipping(11)], wanted), ["11 rows were counted as skipped, not 10"]);
    }

    #[test]
    fn a_column_is_found_by_its_name() {
        assert_eq!(column("a,b\n1,2\n3,4\n", "b").unwrap(), ["2", "4"]);
        assert_eq!(column("a,b\n\"1,\n2\",3\n", "b").unwrap(), ["3"]);
        assert!(column("a,b\n", "c").is_err());
    }
}
