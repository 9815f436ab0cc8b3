//! Films that two buckets of a real S3 server get besides the NAS, through a door that the test opens, shuts and holds.

use super::site::{COMPOSITION, Farm, Site, eventually};
use serde_json::json;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tidemill_testkit::moto::{BUCKET, PYTHON, PrivateMoto};
use tidemill_testkit::skip;

const OPEN: u8 = 0;
/// Whoever comes is sent away.
const SHUT: u8 = 1;
/// Whoever brings an object is kept waiting.
const HELD: u8 = 2;
/// Whoever brings an object to the bucket of the partner hears that this is forbidden.
const REFUSING: u8 = 3;
/// Whoever wants anything of the bucket of the partner is sent away.
const AWAY: u8 = 4;

/// The bucket of the second target.
const PARTNER: &str = "partner";

/// What stands before the server.
struct Door {
    url: String,
    room: Arc<Room>,
}

#[derive(Default)]
struct Room {
    mode: AtomicU8,
    /// The paths of all objects that somebody has brought, in that order.
    brought: Mutex<Vec<String>>,
    /// How many were sent away.
    sent_away: AtomicU32,
}

impl Door {
    fn before(moto: &PrivateMoto) -> Self {
        let server = moto.endpoint().trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let door = Self { url, room: Arc::default() };
        let room = door.room.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (server, room) = (server.clone(), room.clone());
                // One that breaks off is what this is for.
                thread::spawn(move || pass(client, &server, &room));
            }
        });
        door
    }

    fn set(&self, mode: u8) {
        self.room.mode.store(mode, Ordering::SeqCst);
    }

    async fn until_brought(&self) {
        let brought = eventually(async || (!self.room.brought.lock().unwrap().is_empty()).then_some(()));
        assert!(brought.await.is_some(), "nobody brings an object");
    }

    /// How often an object was brought to this bucket.
    fn brought_to(&self, bucket: &str) -> usize {
        let folder = format!("/{bucket}/");
        self.room.brought.lock().unwrap().iter().filter(|path| path.starts_with(&folder)).count()
    }

    /// Waits until this many more were sent away.
    async fn until_sent_away(&self, more: u32) {
        let count = || self.room.sent_away.load(Ordering::SeqCst);
        let before = count();
        let sent = eventually(async || (count() >= before + more).then_some(()));
        assert!(sent.await.is_some(), "only {} come", count() - before);
    }
}

fn pass(mut client: TcpStream, server: &str, room: &Room) -> io::Result<()> {
    let mut upstream = TcpStream::connect(server)?;
    let (mut from, mut to) = (upstream.try_clone()?, client.try_clone()?);
    thread::spawn(move || io::copy(&mut from, &mut to));
    let mut block = [0; 16 << 10];
    // A client keeps its connections to one bucket.
    let mut is_for_partner = false;
    loop {
        let read = client.read(&mut block)?;
        let (is_put, path) = begun(&block[..read]);
        is_for_partner |= path.starts_with(&format!("/{PARTNER}"));
        if is_put {
            room.brought.lock().unwrap().push(path);
        }
        let is_held = || room.mode.load(Ordering::SeqCst) == HELD;
        if is_put && is_held() {
            while is_held() {
                thread::sleep(Duration::from_millis(50));
            }
            // What was held back never arrives.
            client.shutdown(Shutdown::Both)?;
        }
        let mode = room.mode.load(Ordering::SeqCst);
        if mode == REFUSING && is_put && is_for_partner {
            client.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
            client.shutdown(Shutdown::Write)?;
            // Who closes before everything is read takes the answer back.
            return io::copy(&mut client, &mut io::sink()).map(drop);
        }
        let is_sent_away = mode == SHUT || (mode == AWAY && is_for_partner);
        if read == 0 || is_sent_away {
            room.sent_away.fetch_add(u32::from(read > 0), Ordering::SeqCst);
            client.shutdown(Shutdown::Both)?;
            return upstream.shutdown(Shutdown::Both);
        }
        upstream.write_all(&block[..read])?;
    }
}

/// Whether a request that begins here brings something, and its path.
fn begun(block: &[u8]) -> (bool, String) {
    let line = block.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    (words.next() == Some("PUT"), words.next().unwrap_or_default().to_owned())
}

struct Archive {
    moto: PrivateMoto,
    door: Door,
    site: Site,
}

impl Archive {
    async fn new(targets: &[&str]) -> Option<Self> {
        let python = skip::require("moto", std::env::var_os(PYTHON))?;
        let mut site = Site::new(Farm::shared()?).await?;
        let moto = PrivateMoto::start(&python).unwrap();
        let door = Door::before(&moto);
        for (name, value) in moto.variables() {
            site = site.with(name, if name == "AWS_ENDPOINT_URL" { &door.url } else { &value });
        }
        moto.make_bucket(PARTNER).unwrap();
        let folders = format!("archive=s3://{BUCKET}/films; partner=s3://{PARTNER}/films");
        let site = site.with("TIDEMILL_RENDER_TARGETS", &folders);
        let mut profile = site.profile(COMPOSITION);
        profile["targets"] = json!(targets);
        site.save_profile(profile).await;
        Some(Self { moto, door, site })
    }

    async fn order(&self) -> i64 {
        let id = self.site.order("").await;
        self.site
            .execute(&format!("update render_queue set broadcast_date = '2026-11-15' where id = {id}"))
            .await;
        id
    }

    fn key(id: i64) -> String {
        format!("films/2026-11-15/{COMPOSITION}_{id}.mp4")
    }

    /// The object as it is now.
    fn object(&self, id: i64) -> Option<Vec<u8>> {
        self.object_of(BUCKET, id)
    }

    fn object_of(&self, bucket: &str, id: i64) -> Option<Vec<u8>> {
        self.moto.get_of(bucket, &Self::key(id).replace(' ', "%20")).unwrap()
    }

    fn file(&self, id: i64) -> Option<Vec<u8>> {
        let file = self.site.nas.join(format!("output/2026-11-15/{COMPOSITION}_{id}.mp4"));
        std::fs::read(file).ok()
    }

    /// Both places have the same film, which was rendered once.
    async fn is_everywhere(&self, id: i64) {
        let inventory = self.site.ended(&[id]).await;

        assert_eq!(inventory.statuses(), ["completed"], "{inventory:#?}");
        assert_eq!((self.site.posted(id).len(), self.site.renders(id).len()), (1, 1), "{inventory:#?}");
        let (object, file) = (self.object(id), self.file(id));
        assert!(object.is_some() && object == file);
        assert_eq!(self.moto.keys().unwrap(), [Self::key(id)]);
        assert!(self.moto.uploads().unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_killed_in_an_upload_is_replaced_and_the_film_is_everywhere_once() {
    let Some(archive) = Archive::new(&["nas", "archive"]).await else { return };
    archive.door.set(HELD);
    let id = archive.order().await;
    let mut first = archive.site.worker_with("first", &[("TIDEMILL_RENDER_LEASE", "20s")]);
    archive.door.until_brought().await;

    let state = archive.site.state(id).await;
    assert_eq!((state.phase.as_str(), archive.object(id), archive.file(id)), ("publishing", None, None));
    first.kill();
    archive.door.set(OPEN);
    let heir = archive.site.worker("heir");
    archive.is_everywhere(id).await;
    heir.end();

    let url = format!("s3://{BUCKET}/{}", Archive::key(id));
    let stage = archive.site.stage();
    let shown = stage.run(&["render", "show", &id.to_string()]).succeeds().stdout.clone();
    assert!(shown.contains(&url), "{shown}");
    stage.run(&["render", "delete", "--older-than", "1ms", "--films", "--yes"]).succeeds();
    assert_eq!((archive.object(id), archive.file(id)), (None, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_dies_between_the_store_and_the_nas_uploads_nothing_twice() {
    let Some(archive) = Archive::new(&["nas", "archive"]).await else { return };
    let id = archive.order().await;
    let crash = [("TIDEMILL_RENDER_LEASE", "20s"), ("TIDEMILL_CRASH_AT", "render_before_publishing")];
    let mut first = archive.site.worker_with("first", &crash);

    first.has_crashed();
    assert!(archive.object(id).is_some() && archive.file(id).is_none());
    // An upload would be held for ever.
    archive.door.set(HELD);
    let heir = archive.site.worker("heir");

    archive.is_everywhere(id).await;
    heir.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_down_is_waited_for_while_others_are_published() {
    let Some(archive) = Archive::new(&["archive"]).await else { return };
    archive.site.know("Other").await;
    archive.door.set(SHUT);
    let id = archive.order().await;
    let worker = archive.site.worker("one");
    archive.site.until(id, "copying", |state| state.phase == "copying").await;
    let other = archive.site.order_data("Other", &super::site::data("")).await;
    archive.site.until(other, "completed", |state| state.status == "completed").await;

    let waiting = archive.site.until(id, "put off", |state| state.error_code.is_some()).await;
    assert_eq!(
        (waiting.status.as_str(), waiting.attempts, waiting.error_code.as_deref()),
        ("pending", 0, Some("TM1560")),
        "{waiting:?}"
    );
    archive.door.set(OPEN);

    let state = archive.site.until(id, "ended", super::site::State::has_ended).await;
    let url = format!("s3://{BUCKET}/{}", Archive::key(id));
    assert_eq!((state.status.as_str(), state.output_file_path.as_deref()), ("completed", Some(url.as_str())));
    assert_eq!((archive.site.posted(id).len(), archive.file(id)), (1, None));
    let bytes = archive.object(id).unwrap().len();
    assert_eq!(i64::try_from(bytes).ok(), state.output_bytes);
    assert!(std::fs::read_dir(archive.site.nas.join("output/2026-11-15")).unwrap().next().is_none());
    worker.end();
}

/// It refuses the film in one claim, is away when the next one looks, and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_store_that_is_down_gets_the_film_when_it_is_back_and_the_first_is_left_alone() {
    let Some(archive) = Archive::new(&["nas", "archive", PARTNER]).await else { return };
    archive.door.set(REFUSING);
    let id = archive.order().await;
    let worker = archive.site.worker("one");

    let waiting = archive.site.until(id, "put off", |state| state.error_code.is_some()).await;
    archive.door.set(AWAY);
    assert_eq!(
        (waiting.status.as_str(), waiting.phase.as_str(), waiting.attempts, waiting.error_code.as_deref()),
        ("pending", "publishing", 0, Some("TM1560")),
        "{waiting:?}"
    );
    let kept = archive.object(id);
    // The NAS comes last.
    assert_eq!((kept.is_some(), archive.object_of(PARTNER, id), archive.file(id)), (true, None, None));
    archive.door.until_sent_away(3).await;
    assert_eq!((archive.object_of(PARTNER, id), archive.file(id)), (None, None));
    archive.door.set(OPEN);
    archive.is_everywhere(id).await;

    assert!(archive.object(id) == kept && archive.object_of(PARTNER, id) == kept);
    assert_eq!(archive.door.brought_to(BUCKET), 1, "the first store has it already");
    let state = archive.site.state(id).await;
    // Only the claim that published it counts.
    assert_eq!((state.epoch, state.attempts), (2, 1), "{}", worker.log());
    worker.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_of_somebody_else_stays_and_nothing_is_rendered() {
    let Some(archive) = Archive::new(&["nas", "archive"]).await else { return };
    let id = archive.order().await;
    archive.moto.put(&Archive::key(id).replace(' ', "%20"), b"theirs").unwrap();

    let worker = archive.site.worker("one");
    let state = archive.site.until(id, "failed", |state| state.status == "failed").await;

    assert_eq!(state.error_code.as_deref(), Some("TM1538"), "{state:?}");
    assert_eq!((archive.object(id).as_deref(), archive.file(id)), (Some(&b"theirs"[..]), None));
    assert_eq!(archive.site.posted(id), [] as [String; 0]);
    worker.end();
}
