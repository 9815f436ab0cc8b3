//! `cargo xtask size`: how many lines of product code each crate has.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// Prints the lines of each crate and their sum. Tests do not count.
pub(crate) fn run() -> ExitCode {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("crates");
    let mut names: Vec<_> =
        fs::read_dir(&crates).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    let (mut all_files, mut all_lines) = (0, 0);
    println!("{:<12}{:>8}{:>10}", "crate", "files", "lines");
    for name in names {
        let (files, lines) = count(&crates.join(&name).join("src"));
        println!("{:<12}{files:>8}{lines:>10}", name.to_string_lossy());
        all_files += files;
        all_lines += lines;
    }
    println!("{:<12}{all_files:>8}{all_lines:>10}", "all");
    ExitCode::SUCCESS
}

/// Files and lines of product code in a folder.
fn count(folder: &Path) -> (usize, usize) {
    let (mut files, mut lines) = (0, 0);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "tests" {
            let inside = count(&path);
            files += inside.0;
            lines += inside.1;
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            files += 1;
            lines += fs::read_to_string(&path).map_or(0, |text| product_lines(&text));
        }
    }
    (files, lines)
}

/// The lines of a file before its module of tests, which is its last item.
fn product_lines(text: &str) -> usize {
    text.split("#[cfg(test)]\nmod tests {").next().map_or(0, |product| product.lines().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_do_not_count() {
        assert_eq!(product_lines("fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n"), 2);
        assert_eq!(product_lines("fn a() {}\n\n#[cfg(test)]\nmod tests;\n"), 4);
    }

    #[test]
    fn the_crates_are_found() {
        let (files, lines) =
            count(&Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("crates").join("domain/src"));

        assert!(files > 10 && lines > 1_000, "{files} files, {lines} lines");
    }
}
