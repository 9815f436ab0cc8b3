//! Google Cloud Storage and Azure: services on loopback that follow their public API, and keep what they are sent.
//!
//! They know the requests of one writer and one reader: single and multipart uploads, metadata, ranges, `If-Match`, lists.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tidemill_engine::item::storage::{Depth, Existing, Listed, Storage};
use tidemill_objects::Objects;
use tidemill_testkit::http_service::{HttpService, Received, Reply};

/// What differs between the clouds.
struct Cloud {
    scheme: &'static str,
    metadata: &'static str,
    is_authorised: fn(&str) -> bool,
    list: fn(&[(&String, &Object)]) -> String,
}

const GOOGLE: Cloud = Cloud {
    scheme: "gs",
    metadata: "x-goog-meta-tidemillmark",
    // The key of the service account says that no token is needed. Some requests have an empty one.
    is_authorised: |authorisation| matches!(authorisation.trim_end(), "" | "Bearer"),
    list: |objects| {
        let entry = |(key, object): &(&String, &Object)| {
            let size = object.body.len();
            format!(
                "<Contents><Key>{key}</Key><LastModified>2026-11-15T02:00:00.000Z</LastModified><ETag>{}</ETag>\
                 <Size>{size}</Size></Contents>",
                object.tag()
            )
        };
        format!("<ListBucketResult>{}</ListBucketResult>", objects.iter().map(entry).collect::<String>())
    },
};

const AZURE: Cloud = Cloud {
    scheme: "az",
    metadata: "x-ms-meta-tidemillmark",
    is_authorised: |authorisation| authorisation.starts_with("SharedKey account:"),
    list: |objects| {
        let entry = |(key, object): &(&String, &Object)| {
            let size = object.body.len();
            format!(
                "<Blob><Name>{key}</Name><Properties><Last-Modified>{CHANGED}</Last-Modified><Etag>{}</Etag>\
                 <Content-Length>{size}</Content-Length><Content-Type>text/csv</Content-Type></Properties></Blob>",
                object.tag()
            )
        };
        let blobs: String = objects.iter().map(entry).collect();
        format!("<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker/></EnumerationResults>")
    },
};

const CHANGED: &str = "Sun, 15 Nov 2026 02:00:00 GMT";

#[derive(Clone, Default)]
struct Object {
    body: String,
    mark: String,
    version: usize,
}

impl Object {
    fn tag(&self) -> String {
        format!("\"{}\"", self.version)
    }
}

#[derive(Default)]
struct Bucket {
    objects: BTreeMap<String, Object>,
    /// Of the upload that is not finished: its mark, and its parts by number or id.
    mark: String,
    parts: BTreeMap<String, String>,
}

fn unescaped(text: &str) -> String {
    url::form_urlencoded::parse(text.as_bytes()).next().map_or_else(String::new, |(key, _)| key.into_owned())
}

fn answer(cloud: &Cloud, bucket: &Mutex<Bucket>, request: &Received, number: usize) -> Reply {
    let mut bucket = bucket.lock().unwrap();
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let Some(key) = unescaped(path).strip_prefix("/lake").map(|key| key.trim_start_matches('/').to_owned())
    else {
        return Reply::new(404, "");
    };
    if !(cloud.is_authorised)(request.header("authorization").unwrap_or_default()) {
        return Reply::new(403, "");
    }
    let mark = || request.header(cloud.metadata).unwrap_or_default().to_owned();
    let made = || Reply::new(201, "").with("etag", format!("\"{number}\""));
    match (request.method.as_str(), request.query("comp"), request.query("partNumber")) {
        ("GET", ..) if key.is_empty() => {
            let prefix = unescaped(request.query("prefix").unwrap_or_default());
            let objects: Vec<_> =
                bucket.objects.iter().filter(|(known, _)| known.starts_with(&prefix)).collect();
            Reply::new(200, (cloud.list)(&objects))
        }
        ("POST", ..) if query.starts_with("uploads") => {
            bucket.mark = mark();
            Reply::new(
                200,
                "<InitiateMultipartUploadResult><UploadId>7</UploadId></InitiateMultipartUploadResult>",
            )
        }
        ("PUT", Some("block"), _) => {
            let id = unescaped(request.query("blockid").unwrap());
            bucket.parts.insert(id, request.body.clone());
            made()
        }
        ("PUT", _, Some(part)) => {
            bucket.parts.insert(format!("{part:0>6}"), request.body.clone());
            made()
        }
        ("PUT", Some("blocklist"), _) | ("POST", ..) => {
            // A list names its blocks in their order.
            let mut parts: Vec<_> = std::mem::take(&mut bucket.parts).into_iter().collect();
            parts.sort_by_key(|(id, _)| request.body.find(id));
            let mark = if request.method == "PUT" { mark() } else { std::mem::take(&mut bucket.mark) };
            let body = parts.into_iter().map(|(_, part)| part).collect();
            bucket.objects.insert(key, Object { body, mark, version: number });
            let done = "<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>";
            Reply { body: done.to_owned(), ..made() }
        }
        ("PUT", ..) => {
            bucket.objects.insert(key, Object { body: request.body.clone(), mark: mark(), version: number });
            made()
        }
        _ => bucket.objects.get(&key).map_or(Reply::new(404, ""), |object| found(cloud, object, request)),
    }
}

/// An object, or the range of it that is asked for.
fn found(cloud: &Cloud, object: &Object, request: &Received) -> Reply {
    if request.header("if-match").is_some_and(|tag| tag != object.tag()) {
        return Reply::new(412, "");
    }
    let size = object.body.len();
    let range = request.header("range").or(request.header("x-ms-range"));
    let range = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let reply = match range {
        None => Reply::new(200, &object.body),
        Some((from, to)) => {
            let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
            let range = format!("bytes {from}-{to}/{size}");
            Reply::new(206, &object.body[from..=to]).with("content-range", range)
        }
    };
    reply.with("etag", object.tag()).with("last-modified", CHANGED).with(cloud.metadata, &object.mark)
}

/// Writes, finds, lists and reads objects.
fn check(cloud: &'static Cloud, options: impl Fn(&HttpService, &TempDir) -> Vec<(&'static str, String)>) {
    let bucket = Arc::new(Mutex::new(Bucket::default()));
    let kept = bucket.clone();
    let service = HttpService::start(move |request, number| answer(cloud, &kept, request, number)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let options = options(&service, &folder).into_iter().map(|(name, value)| (name.to_owned(), value));
    let objects = Objects::with(options, folder.path().join("spool"));
    let url = |key: &str| format!("{}://lake/{key}", cloud.scheme);
    let upload = |name: &str, lines: usize, mark: &str| {
        let text: String = (0..lines).map(|line| format!("{line:07},{}\n", "x".repeat(91))).collect();
        let file = folder.path().join("part");
        std::fs::write(&file, &text).unwrap();
        objects.upload(&file, &url(name), Existing::Replace, mark).unwrap();
        text
    };

    let small = upload("out/a b.csv", 30_000, "first");
    let large = upload("out/large.csv", 170_000, "second");
    upload("other.csv", 1, "third");

    assert!(large.len() > 2 * 8 * 1024 * 1024);
    assert_eq!(objects.find(&url("out/a b.csv")).unwrap().as_deref(), Some("first"));
    assert_eq!(objects.find(&url("out/large.csv")).unwrap().as_deref(), Some("second"));
    assert_eq!(objects.find(&url("out/none.csv")).unwrap(), None);
    let mut listed = objects.list(&url("out"), Depth::Below, 10).unwrap();
    listed.sort_unstable_by(|one, other| one.url.cmp(&other.url));
    assert_eq!(
        listed,
        [("out/a b.csv", &small), ("out/large.csv", &large)]
            .map(|(key, text)| Listed { url: url(key), size: text.len() as u64 })
    );
    for (name, content) in [("out/a b.csv", &small), ("out/large.csv", &large)] {
        let mut source = objects.open(&url(name)).unwrap();
        let mut text = String::new();
        source.seek(SeekFrom::Start(1_000_000)).unwrap();
        source.read_to_string(&mut text).unwrap();
        assert!(text == content[1_000_000..], "{name}");
    }
    assert!(objects.open(&url("out/none.csv")).is_err());
    // An object that another program has made has no mark, and one that is replaced while it is read is noticed.
    let mut source = objects.open(&url("out/a b.csv")).unwrap();
    bucket
        .lock()
        .unwrap()
        .objects
        .insert("out/a b.csv".into(), Object { body: small, version: 1_000, ..Object::default() });
    assert_eq!(objects.find(&url("out/a b.csv")).unwrap().as_deref(), Some(""));
    let replaced = source.read(&mut [0; 8]).unwrap_err().to_string();
    assert!(replaced.contains("was replaced while it was read"), "{replaced}");
}

#[test]
fn google_cloud_storage_is_asked_as_its_api_says() {
    check(&GOOGLE, |service, folder| {
        let account = folder.path().join("account.json");
        let address = service.url("");
        let key = format!(
            r#"{{"gcs_base_url": "{address}", "disable_oauth": true, "client_email": "", "private_key": "",
                "private_key_id": ""}}"#
        );
        std::fs::write(&account, key).unwrap();
        vec![("google_service_account", account.display().to_string())]
    });
}

#[test]
fn azure_is_asked_as_its_api_says() {
    check(&AZURE, |service, _| {
        vec![
            ("azure_storage_account_name", "account".to_owned()),
            ("azure_storage_account_key", "a2V5".to_owned()),
            ("azure_storage_endpoint", service.url("")),
            ("azure_allow_http", "true".to_owned()),
        ]
    });
}
