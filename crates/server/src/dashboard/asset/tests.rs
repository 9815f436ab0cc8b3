//! The style and the script keep their budgets, and every colour can be read on every ground.

use super::*;
use std::collections::BTreeMap;

/// A colour of the palette, in the light theme and in the dark one.
type Pair = [Colour; 2];

#[derive(Clone, Copy, PartialEq, Debug)]
struct Colour([u8; 3]);

impl Colour {
    fn of(text: &str) -> Option<Self> {
        let digits = text.trim().strip_prefix('#').filter(|digits| digits.len() == 6)?;
        let part = |place: usize| u8::from_str_radix(&digits[place..place + 2], 16).ok();
        Some(Self([part(0)?, part(2)?, part(4)?]))
    }

    /// Relative luminance by WCAG 2.2.
    fn luminance(self) -> f64 {
        let linear = self.0.map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }
}

fn contrast(one: Colour, other: Colour) -> f64 {
    let (a, b) = (one.luminance(), other.luminance());
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// The block of the style in which all colours are.
fn palette_block(style: &str) -> &str {
    let start = style.find(":root {").expect("the style has a palette");
    &style[start..start + style[start..].find('}').expect("the palette ends")]
}

fn palette(style: &str) -> BTreeMap<&str, Pair> {
    let lines = palette_block(style).lines().filter_map(|line| line.trim().strip_prefix("--"));
    let pair = |value: &str| {
        let both = value.strip_prefix("light-dark(")?.strip_suffix(");")?;
        let (light, dark) = both.split_once(',')?;
        Some([Colour::of(light)?, Colour::of(dark)?])
    };
    lines
        .filter_map(|line| line.split_once(": ").and_then(|(name, value)| Some((name, pair(value)?))))
        .collect()
}

/// The pairs that cannot be told apart well enough, by the names' own rule.
fn faults(style: &str) -> Vec<String> {
    let palette = palette(style);
    let mut faults = Vec::new();
    let mut pairs = Vec::new();
    for front in palette.keys() {
        let (kind, rest) = front.split_once('-').expect("every colour has a kind");
        let grounds = palette.keys().filter(|name| name.starts_with("ground-"));
        match kind {
            "text" => pairs.extend(grounds.map(|back| (*front, (*back).to_owned(), 4.5))),
            "mark" => pairs.extend(grounds.map(|back| (*front, (*back).to_owned(), 3.0))),
            "on" => pairs.push((*front, format!("fill-{rest}"), 4.5)),
            // Fills carry text of their own, and are seen by it; lines between rows only please.
            "ground" | "fill" | "rule" => {}
            other => faults.push(format!("nobody knows what {other} may be put on")),
        }
    }
    for (front, back, least) in pairs {
        for (theme, place) in [("light", 0), ("dark", 1)] {
            let found = contrast(palette[front][place], palette[back.as_str()][place]);
            if found < least {
                faults.push(format!("{front} on {back}, {theme}: {found:.2} is less than {least}"));
            }
        }
    }
    faults
}

#[test]
fn every_text_and_mark_can_be_read_on_every_ground_in_both_themes() {
    assert_eq!(palette(STYLE.text).keys().filter(|name| name.starts_with("text-")).count(), 6);
    assert_eq!(palette(STYLE.text).keys().filter(|name| name.starts_with("ground-")).count(), 3);
    assert_eq!(faults(STYLE.text), Vec::<String>::new());
}

#[test]
fn a_colour_that_cannot_be_read_is_found() {
    for (name, good, bad, count) in [
        ("--text-soft", "#4a5663", "#8a939c", 3),
        ("--mark-control", "#8592a0", "#3a4550", 3),
        ("--on-bad", "#ffffff", "#777777", 2),
    ] {
        let line = STYLE.text.lines().find(|line| line.trim().starts_with(name)).unwrap();
        assert!(line.contains(good), "{line}");

        let planted = STYLE.text.replace(line, &line.replace(good, bad));

        assert_eq!(faults(&planted).len(), count, "{:?}", faults(&planted));
    }
}

#[test]
fn contrast_is_computed_as_the_standard_says() {
    let [black, white, grey] = ["#000000", "#ffffff", "#767676"].map(|text| Colour::of(text).unwrap());

    assert!((contrast(black, white) - 21.0).abs() < 0.01);
    assert!((contrast(grey, white) - 4.54).abs() < 0.01);
}

#[test]
fn no_colour_is_outside_the_palette() {
    let rest = STYLE.text.replace(palette_block(STYLE.text), "");
    let is_colour = |place: usize| rest[place + 1..].bytes().take(3).all(|byte| byte.is_ascii_hexdigit());
    let found: Vec<&str> =
        rest.match_indices('#').filter(|(place, _)| is_colour(*place)).map(|(_, hash)| hash).collect();
    assert_eq!(found, Vec::<&str>::new());
    assert!(!rest.contains("rgb(") && !rest.contains("hsl("));
}

#[test]
fn style_and_script_keep_their_budgets_and_ask_nobody_else() {
    assert!(STYLE.text.len() <= 20 * 1024, "{}", STYLE.text.len());
    assert!(SCRIPT.text.len() <= 12 * 1024, "{}", SCRIPT.text.len());
    for text in [STYLE.text, SCRIPT.text] {
        for foreign in ["http://", "https://", "//cdn", "@import", "url("] {
            assert!(!text.contains(foreign), "{foreign}");
        }
    }
    for forbidden in ["eval(", "new Function", ".style", "confirm(", "setAttribute(\"style\"", "onclick"] {
        assert!(!SCRIPT.text.contains(forbidden), "{forbidden}");
    }
}
