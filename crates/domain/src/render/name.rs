//! File names that are valid on Linux, Windows, and a NAS between them. Korean stays Korean.

use super::uid::{RenderId, Uid};
use unicode_normalization::UnicodeNormalization;

/// Including everything added while the file is written.
const BYTES_MAX: usize = 255;

/// What is added to a name while the file is written: `.<name>.<uid>.part`.
const PART_BYTES: usize = "...part".len() + Uid::BYTES_MAX;

const UNTITLED: &str = "untitled";

/// Device names of Windows, with or without an extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Composition, render number, revision if it has one, and extension: at most 255 bytes, even while written, and `chars_max` UTF-16 units.
pub fn file_name(
    composition: &str,
    render: RenderId,
    revision: Option<u32>,
    extension: &str,
    chars_max: usize,
) -> String {
    let ending = match revision {
        None => format!("_{render}.{extension}"),
        Some(revision) => format!("_{render}_r{revision}.{extension}"),
    };
    let bytes = BYTES_MAX.saturating_sub(PART_BYTES + ending.len());
    let units = chars_max.saturating_sub(ending.len());
    format!("{}{ending}", cut(composition, bytes, units))
}

/// The name of a file while it is written, beside its final one. Each job has its own.
pub fn part_name(file_name: &str, uid: Uid) -> String {
    format!(".{file_name}.{uid}.part")
}

/// The job of a partial file; old ones can be deleted.
pub fn part_of(file_name: &str) -> Option<Uid> {
    let (_, uid) = file_name.strip_prefix('.')?.strip_suffix(".part")?.rsplit_once('.')?;
    uid.parse().ok()
}

/// A name that is valid everywhere, and means the same to the reader.
fn cut(name: &str, bytes_max: usize, units_max: usize) -> String {
    let replaced: String = name.nfc().map(|letter| if is_bad(letter) { '_' } else { letter }).collect();
    let trimmed = trim_end(replaced.trim_start());
    let escaped = if is_device(trimmed) { format!("_{trimmed}") } else { trimmed.to_owned() };
    let (mut bytes, mut units) = (0, 0);
    let fitting = escaped.chars().take_while(|letter| {
        bytes += letter.len_utf8();
        units += letter.len_utf16();
        bytes <= bytes_max && units <= units_max
    });
    let fitting: String = fitting.collect();
    match trim_end(&fitting) {
        "" => UNTITLED.to_owned(),
        fitting => fitting.to_owned(),
    }
}

/// Windows drops dots and spaces at the end.
fn trim_end(name: &str) -> &str {
    name.trim_end_matches(|letter: char| letter == '.' || letter.is_whitespace())
}

fn is_bad(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '<' | '>' | ':' | '"' | '/' | '\\' | '|' | '?' | '*' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let numbered = ["com", "lpt"].iter().find_map(|port| stem.strip_prefix(port));
    let is_digit = |rest: &str| {
        let mut letters = rest.chars();
        let digit = letters.next().is_some_and(|digit| digit.is_ascii_digit() || "¹²³".contains(digit));
        digit && letters.next().is_none()
    };
    DEVICES.contains(&stem.as_str()) || numbered.is_some_and(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Epoch;
    use proptest::prelude::*;

    fn safe(name: &str) -> String {
        cut(name, BYTES_MAX, usize::MAX)
    }

    #[test]
    fn names_stay_readable() {
        let check = |name: &str, expected: &str| assert_eq!(safe(name), expected, "{name:?}");

        check("_MAIN Mini Chip Count", "_MAIN Mini Chip Count");
        check("Final/Day 1: \"A\"", "Final_Day 1_ _A_");
        check("..", "untitled");
        check("파이널 테이블", "파이널 테이블");
        // Decomposed, as a Mac writes it.
        check("\u{1112}\u{1161}\u{11ab}", "한");
        check(" a . . ", "a");
        check("a\tb\nc", "a_b_c");
        check("CON", "_CON");
        check("nul.txt", "_nul.txt");
        check("com1", "_com1");
        check("COM¹", "_COM¹");
        check("Conin$", "_Conin$");
        check("console", "console");
        check("com10", "com10");
        check("", "untitled");
        check(".", "untitled");
        check(" .. ", "untitled");
        check("../../etc/passwd", ".._.._etc_passwd");
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let name = file_name(&"한".repeat(300), RenderId::new(4711), None, "mp4", usize::MAX);
        assert!(name.ends_with("한_4711.mp4"), "{name}");

        let name = file_name(&"a".repeat(300), RenderId::new(4711), None, "mp4", 40);
        assert_eq!(name.len(), 40);
        assert!(name.ends_with("a_4711.mp4"));
    }

    #[test]
    fn half_files_are_known_by_their_names() {
        let uid = Uid::new(RenderId::new(7), Epoch::new(2));
        let part = part_name("Chip Count_7.mp4", uid);

        assert_eq!(part, ".Chip Count_7.mp4.rq-7-2.part");
        assert_eq!(part_of(&part), Some(uid));
        for foreign in ["Chip Count_7.mp4", ".DS_Store", ".a.part", "a.rq-7-2.part", ".a.rq-7.part"] {
            assert_eq!(part_of(foreign), None, "{foreign}");
        }
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_name_that_every_system_can_have(text in ".{0,300}") {
            let name = safe(&text);
            prop_assert!(!name.is_empty() && name.len() <= BYTES_MAX);
            prop_assert!(!name.chars().any(is_bad) && name != "." && name != "..");
            prop_assert!(!name.ends_with(['.', ' ']) && !name.starts_with(' '));
            prop_assert!(!is_device(&name), "{name}");
            prop_assert_eq!(safe(&name), name);
        }

        #[test]
        fn with_all_that_is_around_it_a_name_fits(
            text in "\\PC{0,300}", id in 0..=i64::MAX, epoch in 0..=i64::MAX, revision: u32, chars_max in 60..300_usize,
        ) {
            let id = RenderId::new(id);
            let name = file_name(&text, id, Some(revision), "mp4", chars_max);
            prop_assert!(part_name(&name, Uid::new(id, Epoch::new(epoch))).len() <= BYTES_MAX);
            let ending = format!("_{id}_r{revision}.mp4");
            prop_assert!(name.ends_with(&ending) && name.len() > ending.len());
            prop_assert!(name.encode_utf16().count() <= chars_max.max(ending.len() + UNTITLED.len()));
        }
    }
}
