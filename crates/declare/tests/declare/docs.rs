//! Every job file that the documents show can be loaded.

use crate::workspace;
use std::fs;
use tidemill_declare::{is_test, load, load_test, read};

/// The jobs of a document: its YAML, unless that is for another program.
fn blocks(text: &str) -> Vec<&str> {
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.lines().any(|line| line.starts_with("job:"))).collect()
}

#[test]
fn every_job_of_the_documents_is_good() {
    let mut seen = 0;
    for folder in ["docs/reference", "docs/guide"] {
        for entry in fs::read_dir(workspace().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            for block in blocks(&fs::read_to_string(&path).unwrap()) {
                seen += 1;
                let wrong = read(&path, block).err().map(|wrong| wrong.to_string());
                assert_eq!(wrong, None, "{}:\n{block}", path.display());
            }
        }
    }
    assert!(seen >= 5, "only {seen} jobs were found");
}

#[test]
fn every_example_is_good() {
    for entry in fs::read_dir(workspace().join("examples/jobs")).into_iter().flatten() {
        let path = entry.unwrap().path();
        if is_test(&path) {
            assert_eq!(load_test(&path).err().map(|wrong| wrong.to_string()), None);
        } else if path.extension().is_some_and(|ending| ending == "yaml") {
            assert_eq!(load(&path).err().map(|wrong| wrong.to_string()), None);
        }
    }
}
