//! Parses ffprobe's output. Missing values stay missing; nothing is guessed.

use serde_json::{Map, Value};
use std::str::FromStr;
use tidemill_domain::render::Probe;
use tidemill_domain::render::check::{Sound, Video};

/// `bytes` is the size of the file.
pub(super) fn parse(text: &str, bytes: u64) -> Result<Probe, &'static str> {
    let Ok(Value::Object(said)) = serde_json::from_str::<Value>(text) else {
        return Err("what ffprobe says is not understood");
    };
    let format = said.get("format").and_then(Value::as_object).ok_or("ffprobe finds no container in it")?;
    let mut probe =
        Probe { bytes, format: word(format, "format_name").unwrap_or_default(), ..Probe::default() };
    let seconds = number(format, "duration");
    for stream in said.get("streams").and_then(Value::as_array).into_iter().flatten() {
        let Some(stream) = stream.as_object() else { continue };
        match stream.get("codec_type").and_then(Value::as_str) {
            Some("video") => probe.videos.push(video(stream, seconds)),
            Some("audio") => probe.audios.push(Sound {
                sample_rate: number(stream, "sample_rate"),
                seconds: number(stream, "duration").or(seconds),
            }),
            _ => {}
        }
    }
    Ok(probe)
}

/// The longest duration in the file; zero if unknown.
pub(super) fn seconds(probe: &Probe) -> f64 {
    let videos = probe.videos.iter().filter(|video| !video.is_attached).filter_map(|video| video.seconds);
    let audios = probe.audios.iter().filter_map(|audio| audio.seconds);
    videos.chain(audios).filter(|seconds| seconds.is_finite()).fold(0.0, f64::max)
}

fn video(stream: &Map<String, Value>, seconds: Option<f64>) -> Video {
    let disposition = stream.get("disposition").and_then(Value::as_object);
    Video {
        codec: word(stream, "codec_name").unwrap_or_default(),
        pixel_format: word(stream, "pix_fmt"),
        width: number(stream, "width").unwrap_or_default(),
        height: number(stream, "height").unwrap_or_default(),
        sample_aspect_ratio: word(stream, "sample_aspect_ratio"),
        field_order: word(stream, "field_order"),
        base_rate: number(stream, "r_frame_rate"),
        average_rate: number(stream, "avg_frame_rate"),
        frames: number(stream, "nb_frames"),
        packets: number(stream, "nb_read_packets"),
        // Some containers give only the total duration.
        seconds: number(stream, "duration").or(seconds),
        is_attached: disposition.and_then(|all| number::<u8>(all, "attached_pic")).is_some_and(|is| is != 0),
    }
}

fn word(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name)?.as_str().map(str::to_owned)
}

/// ffprobe writes some numbers as strings.
fn number<T: FromStr>(fields: &Map<String, Value>, name: &str) -> Option<T> {
    match fields.get(name)? {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Output of ffprobe 5.1, shortened.
    const SAID: &str = r#"{"streams": [
        {"index": 0, "codec_name": "h264", "codec_type": "video", "width": 1920, "height": 1080,
         "sample_aspect_ratio": "1:1", "pix_fmt": "yuv420p", "field_order": "progressive",
         "r_frame_rate": "30/1", "avg_frame_rate": "900/59", "duration": "5.000000", "nb_frames": "150",
         "nb_read_packets": "76", "disposition": {"attached_pic": 0}},
        {"codec_name": "aac", "codec_type": "audio", "sample_rate": "48000", "duration": "5.021000"},
        {"codec_name": "mjpeg", "codec_type": "video", "r_frame_rate": "0/0", "disposition": {"attached_pic": 1}},
        {"codec_type": "data", "codec_tag_string": "tmcd"}],
        "format": {"format_name": "mov,mp4,m4a,3gp,3g2,mj2", "duration": "5.021000", "size": "900000"}}"#;

    #[test]
    fn a_clip_is_read_as_it_is_described() {
        let probe = parse(SAID, 900_000).unwrap();

        let video = &probe.videos[0];
        assert_eq!((video.width, video.height, video.codec.as_str()), (1920, 1080, "h264"));
        assert_eq!((video.frames, video.packets, video.seconds), (Some(150), Some(76), Some(5.0)));
        assert_eq!((video.base_rate, video.average_rate), ("30".parse().ok(), "900/59".parse().ok()));
        assert_eq!(probe.audios, [Sound { sample_rate: Some(48_000), seconds: Some(5.021) }]);
        assert!(!video.is_attached && probe.videos[1].is_attached && probe.videos.len() == 2);
        assert_eq!(probe.videos[1].base_rate, None);
        assert_eq!((probe.bytes, probe.format.as_str()), (900_000, "mov,mp4,m4a,3gp,3g2,mj2"));
        assert!((seconds(&probe) - 5.021).abs() < 1e-9);
    }

    #[test]
    fn a_file_of_which_nothing_is_known_is_no_clip() {
        for bad in ["", "{}", "[]", "null", "{\"format\": 7}", "not json"] {
            assert!(parse(bad, 1).is_err(), "{bad:?}");
        }
        assert!(parse("{\"format\": {}}", 1).unwrap().videos.is_empty());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "(video|audio|30/1|0/0|NaN|inf|-1|\\PC{0,8})".prop_map(Value::from),
        ];
        let names = "(streams|format|codec_type|codec_name|width|duration|nb_frames|disposition|attached_pic|sample_rate)";
        leaf.prop_recursive(5, 64, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
                prop::collection::vec((names, inner), 0..8)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_is_said_is_read_without_a_panic(value in any_json(), bytes: u64) {
            let format = serde_json::json!({"format": {"duration": "NaN"}, "streams": [value.clone(), {"codec_type": "video"}]});
            for text in [value.to_string(), format.to_string()] {
                if let Ok(probe) = parse(&text, bytes) {
                    prop_assert_eq!(probe.bytes, bytes);
                    prop_assert!(seconds(&probe).is_finite());
                }
            }
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,200}") {
            let _read = parse(&text, 0);
        }
    }
}
