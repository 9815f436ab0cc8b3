//! Where the file of a render goes: `{folder}/{broadcast date}/{composition}_{id}.{extension}`.

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

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    pub folder: String,
    pub name: String,
    /// Its name while it is written, beside the final one.
    pub part: String,
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
}

impl Output {
    pub fn of(source: Source<'_>) -> Self {
        let folder = source.date.to_string();
        let before = source.folder.encode_utf16().count() + folder.len() + 2;
        let room = PATH_CHARS_MAX.saturating_sub(before);
        let render: RenderId = source.uid.render();
        let name = file_name(source.composition, render, source.extension, room);
        let part = part_name(&name, source.uid);
        Self { folder, name, part }
    }
}

/// The name of a file: the composition in the data, otherwise in the row.
pub fn title(in_data: Option<String>, in_row: Option<String>) -> Option<String> {
    in_data.or(in_row)
}

/// The name of a node's file. Each job has its own, so a late one overwrites nothing.
pub fn staging_name(uid: Uid, extension: &str) -> String {
    format!("{uid}.{extension}")
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
        }
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
        assert_eq!(staging_name(uid, "mov"), "rq-1-3.mov");
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
