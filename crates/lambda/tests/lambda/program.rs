//! The program itself.

use crate::BOOTSTRAP;
use std::process::Command;

/// The C library of Amazon Linux 2023, on which Lambda runs programs.
const GLIBC_OF_LAMBDA: (u32, u32) = (2, 34);

#[test]
fn the_program_needs_no_newer_c_library_than_lambda_has() {
    let read = Command::new("readelf").args(["--version-info", "--wide", BOOTSTRAP]).output().unwrap();
    let text = String::from_utf8(read.stdout).unwrap();

    let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let mut numbers = rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    });
    let newest: (u32, u32) = versions.max().unwrap();

    assert!(newest <= GLIBC_OF_LAMBDA, "it needs {newest:?}");
}

#[test]
fn elsewhere_it_says_what_to_do_instead() {
    let ran = Command::new(BOOTSTRAP).env_remove("AWS_LAMBDA_RUNTIME_API").output().unwrap();

    let told = String::from_utf8(ran.stderr).unwrap();
    assert!(!ran.status.success() && told.contains("tidemill serve") && !told.contains("panicked"), "{told}");
}
