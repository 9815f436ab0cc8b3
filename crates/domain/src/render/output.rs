//! Where the file of a render goes: `{folder}/{broadcast date}/{composition}_{id}.{extension}`, or `…_{id}_r2.{extension}` if
//! the render is rendered again after its file was published.

use super::name::{file_name, part_name};
use super::uid::{RenderId, Uid};
use crate::schedule::Zone;
use crate::time::Timestamp;
use jiff::civil::Date;

/// The longest path that every program on Windows can open, in UTF-16 units.
const PATH_CHARS_MAX: usize = 259;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BroadcastDate(Date);

impl BroadcastDate {
    /// The local date of an instant; none beyond the end of the calendar.
    pub fn of(created_at: Timestamp, zone: &Zone) -> Option<Self> {
        zone.local(created_at).map(|local| Self(local.date()))
    }

    fn read(text: &str) -> Option<Self> {
        // The date parser accepts other forms too, and this becomes a folder.
        text.parse().ok().map(Self).filter(|date| date.to_string() == text)
    }
}

// ISO 8601, so that folders sort by date.
crate::newtype::display!(BroadcastDate, date => "{:04}-{:02}-{:02}", date.0.year(), date.0.month(), date.0.day());

crate::newtype::parsed!(
    BroadcastDate, BroadcastDate::read, BadBroadcastDate(text): "{0:?} is not a day such as 2026-11-15"
);
crate::code::coded!(BadBroadcastDate, BadBroadcastDate);

crate::words! {
    /// What happens to the published file of a render that is rendered again.
    pub enum Correction {
        /// It stays, and the new one has another name.
        Revision = "revision",
        /// The new one gets its name, and it gets another.
        Replace = "replace",
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    pub folder: String,
    pub name: String,
    /// Its name while it is written, beside the final one.
    pub part: String,
    /// The new name of a file that has the final one.
    pub kept: Option<String>,
    /// The key in object stores, which have each revision under its own name: nothing can be renamed there.
    pub key: String,
}

#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub uid: Uid,
    pub composition: &'a str,
    /// Without a dot.
    pub extension: &'a str,
    pub date: BroadcastDate,
    /// The folder of all output, as written on Windows; a long one leaves less room for the name.
    pub folder: &'a str,
    /// 1 for the first file of the render.
    pub revision: u32,
    pub correction: Correction,
}

impl Output {
    pub fn of(source: Source<'_>) -> Self {
        let folder = source.date.to_string();
        let before = source.folder.encode_utf16().count() + folder.len() + 2;
        let room = PATH_CHARS_MAX.saturating_sub(before);
        let render: RenderId = source.uid.render();
        let named = |revision| file_name(source.composition, render, revision, source.extension, room);
        let before = source.revision.checked_sub(1).filter(|before| *before > 0);
        let own = named(before.map(|_| source.revision));
        let key = format!("{folder}/{own}");
        let (name, kept) = match source.correction {
            Correction::Revision => (own, None),
            Correction::Replace => (named(None), before.map(|before| named(Some(before)))),
        };
        let part = part_name(&name, source.uid);
        Self { folder, name, part, kept, key }
    }
}

/// The name of a file: the composition in the data, otherwise in the row.
pub fn title(in_data: Option<String>, in_row: Option<String>) -> Option<String> {
    in_data.or(in_row)
}

/// The name of a node's file. Each job has its own, so a late one overwrites nothing. So does each queue; its word is empty
/// if it is unknown.
pub fn staging_name(uid: Uid, queue: &str, extension: &str) -> String {
    if queue.is_empty() { format!("{uid}.{extension}") } else { format!("{uid}.{queue}.{extension}") }
}

/// Whether another queue has staged the file. Earlier versions did not write the queue.
pub fn is_of_other_queue(name: &str, queue: &str) -> bool {
    let mut parts = name.split('.');
    matches!((parts.nth(1), parts.next()), (Some(word), Some(_)) if word != queue)
}

/// Whether this queue has staged the file, for sure.
pub fn is_of_queue(name: &str, queue: &str) -> bool {
    let mut parts = name.split('.').skip(1);
    !queue.is_empty() && parts.next() == Some(queue) && parts.next().is_some()
}

/// More revisions are not searched for.
const REVISIONS_MAX: u32 = 1_000;

/// The published file of a render and those of its other revisions beside it. None if its name is not one that we give: anyone
/// who can write the database could note any path.
pub fn all_published(path: &str, render: RenderId, revisions: u32) -> Vec<String> {
    let Some((stem, extension)) = path.rsplit_once('.') else { return Vec::new() };
    let own = format!("_{render}");
    let base = match stem.rsplit_once("_r") {
        Some((base, number)) if number.parse::<u32>().is_ok() && base.ends_with(&own) => base,
        _ => stem,
    };
    if !base.ends_with(&own) || extension.contains(['/', '\\']) {
        return Vec::new();
    }
    let others = (1..=revisions.min(REVISIONS_MAX)).map(|number| format!("{base}_r{number}.{extension}"));
    std::iter::once(format!("{base}.{extension}")).chain(others).collect()
}

/// The job of a file that a node has left.
pub fn staged_for(name: &str) -> Option<Uid> {
    name.split_once('.')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use crate::lease::Epoch;
    use proptest::prelude::*;

    fn source<'a>(composition: &'a str, folder: &'a str) -> Source<'a> {
        Source {
            uid: Uid::new(RenderId::new(4711), Epoch::new(2)),
            composition,
            extension: "mp4",
            date: "2026-11-15".parse().unwrap(),
            folder,
            revision: 1,
            correction: Correction::Revision,
        }
    }

    #[test]
    fn a_corrected_file_has_another_name_or_moves_the_one_before() {
        let output = |revision, correction| {
            let output = Output::of(Source { revision, correction, ..source("Mini", "D:\\out") });
            let revision = revision.max(1);
            let own =
                if revision > 1 { format!("Mini_4711_r{revision}.mp4") } else { "Mini_4711.mp4".into() };
            assert_eq!(output.key, format!("2026-11-15/{own}"));
            (output.name, output.kept)
        };
        let named = |name: &str, kept: Option<&str>| (name.to_owned(), kept.map(str::to_owned));

        for correction in Correction::ALL {
            assert_eq!(output(1, correction), named("Mini_4711.mp4", None));
            assert_eq!(output(0, correction), named("Mini_4711.mp4", None));
        }
        assert_eq!(output(2, Correction::Revision), named("Mini_4711_r2.mp4", None));
        assert_eq!(output(2, Correction::Replace), named("Mini_4711.mp4", Some("Mini_4711_r1.mp4")));
        assert_eq!(output(3, Correction::Replace), named("Mini_4711.mp4", Some("Mini_4711_r2.mp4")));
    }

    #[test]
    fn queues_in_one_folder_have_names_of_their_own() {
        let uid = Uid::new(RenderId::new(1), Epoch::new(3));
        let ours = staging_name(uid, "a1b2", "mov");

        assert_eq!((ours.as_str(), staged_for(&ours)), ("rq-1-3.a1b2.mov", Some(uid)));
        assert!(!is_of_other_queue(&ours, "a1b2") && is_of_other_queue(&ours, "c3d4"));
        assert!(!is_of_other_queue("rq-1-3.mov", "a1b2"));
    }

    #[test]
    fn the_files_of_all_revisions_are_found_and_no_others() {
        let all = |path: &str, revisions| all_published(path, RenderId::new(7), revisions);

        assert_eq!(all("s3://films/Mini_7_r2.mp4", 1), ["s3://films/Mini_7.mp4", "s3://films/Mini_7_r1.mp4"]);
        let both = ["\\\\NAS\\Mini_7.mp4", "\\\\NAS\\Mini_7_r1.mp4", "\\\\NAS\\Mini_7_r2.mp4"];
        assert_eq!(all("\\\\NAS\\Mini_7_r2.mp4", 2), both);
        assert_eq!(all("\\\\NAS\\Mini_7.mp4", 2), both);
        for foreign in
            ["/nas/Mini_17.mp4", "/nas/Mini.mp4", "/nas/Mini_7", "/nas/_7.d/passwd", "Mini_7_rx.mp4", ""]
        {
            assert_eq!(all(foreign, 2), [] as [&str; 0], "{foreign}");
        }
        assert!(is_of_queue("rq-1-3.a1b2.mov", "a1b2") && !is_of_queue("rq-1-3.c3d4.mov", "a1b2"));
        assert!(!is_of_queue("rq-1-3.mov", "") && !is_of_queue("rq-1-3.mov", "mov"));
    }

    #[test]
    fn the_names_are_those_of_the_document() {
        let output = Output::of(source("_MAIN Mini Chip Count", "\\\\NAS\\broadcast\\output"));

        assert_eq!(
            (output.folder.as_str(), output.name.as_str()),
            ("2026-11-15", "_MAIN Mini Chip Count_4711.mp4")
        );
        assert_eq!(output.part, "._MAIN Mini Chip Count_4711.mp4.rq-4711-2.part");
        let uid = Uid::new(RenderId::new(1), Epoch::new(3));
        assert_eq!(staging_name(uid, "", "mov"), "rq-1-3.mov");
        assert_eq!(staged_for("rq-1-3.mov"), Some(uid));
        assert_eq!((staged_for("rq-1-3"), staged_for("rq-1.mov"), staged_for(".mov")), (None, None, None));
    }

    #[test]
    fn the_day_is_that_of_the_zone() {
        let late: Timestamp = "2026-11-15T15:30:00Z".parse().unwrap();
        let day = |zone: &str| BroadcastDate::of(late, &zone.parse().unwrap()).unwrap().to_string();

        assert_eq!(day("UTC"), "2026-11-15");
        assert_eq!(day("Asia/Seoul"), "2026-11-16");
        assert_eq!(BroadcastDate::of(Timestamp::from_micros(i64::MAX), &Zone::UTC), None);
    }

    #[test]
    fn other_forms_of_a_day_are_refused() {
        for bad in [
            "",
            "2026-11-31",
            "2026-13-01",
            "2026-1-1",
            "20261115",
            "2026/11/15",
            "2026-11-15 ",
            "..",
            "+2026-11-1",
        ] {
            assert_eq!(bad.parse::<BroadcastDate>().unwrap_err().code(), Code::BadBroadcastDate, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn the_whole_path_can_be_opened_on_windows(composition in "\\PC{0,300}", folder in "[a-z가]{0,180}") {
            let output = Output::of(source(&composition, &folder));
            let path = format!("{folder}\\{}\\{}", output.folder, output.name);
            prop_assert!(path.encode_utf16().count() <= PATH_CHARS_MAX, "{path}");
            prop_assert!(!output.name.contains(['/', '\\']));
        }

        #[test]
        fn whatever_is_accepted_is_one_folder(text in "[0-9.-]{8,12}") {
            if let Ok(date) = text.parse::<BroadcastDate>() {
                prop_assert_eq!(date.to_string(), text);
            }
        }
    }

    #[test]
    fn a_day_is_no_path() {
        use crate::render::output::BroadcastDate;
        let date: BroadcastDate = "2026-11-15".parse().unwrap();
        assert_eq!(date.to_string(), "2026-11-15");
        assert!("../2026-11-15".parse::<BroadcastDate>().is_err());
    }
}
