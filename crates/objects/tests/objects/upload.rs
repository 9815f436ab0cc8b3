//! Objects that are made while others make them.

use crate::Lake;
use std::io::ErrorKind;
use tidemill_engine::item::storage::{Existing, Storage};

#[test]
fn a_missing_bucket_is_no_missing_object() {
    let Some(lake) = Lake::new() else { return };
    let objects = lake.objects();

    assert_eq!(objects.find("s3://lake/out").unwrap(), None);
    let missing = objects.find("s3://other/out").unwrap_err().to_string();
    assert_eq!(missing, "there is no bucket s3://other");
}

#[test]
fn an_object_that_appeared_is_not_replaced_unless_it_is_our_own() {
    let Some(lake) = Lake::new() else { return };
    let (objects, file) = (lake.objects(), tempfile::NamedTempFile::new().unwrap());
    std::fs::write(file.path(), "new").unwrap();
    let upload =
        |existing: Existing, mark: &str| objects.upload(file.path(), "s3://lake/out", existing, mark);

    lake.server.put("out", b"old").unwrap();
    let refused = upload(Existing::Refuse, "ours").unwrap_err();
    let kept = lake.text("out");
    upload(Existing::Replace, "ours").unwrap();

    assert_eq!((refused.kind(), kept.as_deref()), (ErrorKind::AlreadyExists, Some("old")));
    assert_eq!(lake.text("out").as_deref(), Some("new"));
    // As if the answer to the request that made it was lost.
    upload(Existing::Refuse, "ours").unwrap();
    assert_eq!(upload(Existing::Refuse, "of another").unwrap_err().kind(), ErrorKind::AlreadyExists);
}
