//! A place in a distributed trace, as W3C Trace Context writes it in the header `traceparent`.

/// The name of the header, in requests and in events.
pub const TRACEPARENT: &str = "traceparent";

/// The length of version 00; later versions may add more.
const CHARS: usize = 55;

/// A span of a trace.
///
/// ```
/// # use tidemill_domain::trace::TraceParent;
/// let place: TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap();
/// assert_eq!((place.span, place.flags), (0xb7ad_6b71_6920_3331, 1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TraceParent {
    pub trace: u128,
    pub span: u64,
    /// 1 if the trace is recorded.
    pub flags: u8,
}

crate::newtype::display!(
    TraceParent, place => "00-{:032x}-{:016x}-{:02x}", place.trace, place.span, place.flags
);

crate::newtype::parsed!(
    TraceParent, read,
    BadTraceParent: "a traceparent is 00-TRACE-SPAN-FLAGS with 32, 16 and 2 lower-case hexadecimal digits, not all 0"
);

fn read(text: &str) -> Option<TraceParent> {
    let version = text.get(..2)?;
    let is_whole = match text.get(CHARS..)? {
        "" => true,
        more => version != "00" && more.starts_with('-'),
    };
    let are_separated = [2, 35, 52].iter().all(|place| text.as_bytes().get(*place) == Some(&b'-'));
    if !is_whole || !are_separated || version == "ff" {
        return None;
    }
    digits(version)?;
    let place = TraceParent {
        trace: u128::from_str_radix(digits(text.get(3..35)?)?, 16).ok()?,
        span: u64::from_str_radix(digits(text.get(36..52)?)?, 16).ok()?,
        flags: u8::from_str_radix(digits(text.get(53..CHARS)?)?, 16).ok()?,
    };
    (place.trace != 0 && place.span != 0).then_some(place)
}

/// The text, if it has lower-case hexadecimal digits only.
fn digits(text: &str) -> Option<&str> {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_header_that_breaks_a_rule_is_refused() {
        assert!(GOOD.parse::<TraceParent>().is_ok());
        for bad in [
            "",
            "00",
            &GOOD[..54],
            &format!("{GOOD}-"),
            &format!("{GOOD}0"),
            &GOOD.replace("00-", "ff-"),
            &GOOD.replace("00-", "0x-"),
            &GOOD.to_uppercase(),
            &GOOD.replace('b', "+"),
            &GOOD.replace("-01", "_01"),
            &GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &GOOD.replace("b7ad6b7169203331", &"0".repeat(16)),
            &GOOD.replace("0af", "é0"),
        ] {
            assert_eq!(bad.parse::<TraceParent>(), Err(BadTraceParent), "{bad:?}");
        }
    }

    #[test]
    fn a_later_version_may_say_more() {
        let later = GOOD.replace("00-", "01-");

        assert_eq!(later.parse::<TraceParent>(), GOOD.parse());
        assert_eq!(format!("{later}-more").parse::<TraceParent>(), GOOD.parse());
        assert_eq!(format!("{later}more").parse::<TraceParent>(), Err(BadTraceParent));
    }

    proptest! {
        #[test]
        fn a_place_is_read_as_it_was_written(trace in 1..=u128::MAX, span in 1..=u64::MAX, flags: u8) {
            let place = TraceParent { trace, span, flags };
            prop_assert_eq!(place.to_string().parse(), Ok(place));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
            if let Ok(place) = text.parse::<TraceParent>() {
                prop_assert!(place.trace != 0 && place.span != 0);
            }
        }
    }
}
