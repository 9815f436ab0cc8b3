//! Projects as After Effects writes them as XML, reports of the script, and what is neither.

use super::*;
use proptest::prelude::*;
use std::fmt::Write;
use tidemill_domain::render::template::{Layer, LayerType};

fn hex(length: usize, parts: &[(usize, &[u8])]) -> String {
    let mut data = vec![0_u8; length];
    for (at, bytes) in parts {
        data[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    data.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn idta(kind: u16, number: u32) -> String {
    let parts: [(usize, &[u8]); 2] = [(0, &kind.to_be_bytes()), (16, &number.to_be_bytes())];
    format!("<idta bdata=\"{}\"/>", hex(72, &parts))
}

/// 1920 x 1080, 29.97 frames per second, 5 seconds.
fn cdta() -> String {
    let parts: [(usize, &[u8]); 4] = [
        (44, &[0, 0, 0, 10]),
        (48, &[0, 0, 0, 2]),
        (140, &[0x07, 0x80, 0x04, 0x38]),
        (156, &[0, 29, 0xf8, 0x52]),
    ];
    format!("<cdta bdata=\"{}\"/>", hex(204, &parts))
}

fn layer(kind: u8, source: u32, name: &str) -> String {
    let data = hex(160, &[(40, &source.to_be_bytes()), (131, &[kind])]);
    // What is deeper has names of its own.
    let properties = "<tdgp><tdsn><string>Marker</string></tdsn></tdgp>";
    format!("<Layr><ldta bdata=\"{data}\"/><string>{name}</string>{properties}</Layr>")
}

fn item(inside: &str) -> String {
    format!("<Item>{inside}</Item>\n")
}

/// As After Effects writes it: folders hold items, and layers refer to items by number.
fn project() -> String {
    let main = format!(
        "{}<string>_MAIN &amp; Mini</string>{}{}{}{}{}{}{}",
        idta(4, 1),
        cdta(),
        layer(3, 0, "Name 1"),
        layer(0, 3, "-_0_/-"),
        layer(0, 4, ""),
        layer(0, 2, ""),
        layer(0, 5, "Box"),
        layer(2, 0, "Camera 1"),
    );
    let seat = format!("{}<string>Seat 1</string>{}{}", idta(4, 2), cdta(), layer(3, 0, "&#xCE69;"));
    let flag = format!("{}<string>Flag</string><Pin><opti bdata=\"706e6721\"/></Pin>", idta(7, 3));
    let file = "<Als2><fileReference fullpath=\"D:\\assets\\A&amp;B.png\"/></Als2>";
    let logo = format!("{}<string></string><Pin><opti bdata=\"706e6721\"/>{file}</Pin>", idta(7, 4));
    let solid = format!("{}<string/><Pin><opti bdata=\"536f6c69\"/></Pin>", idta(7, 5));
    let folder = format!("{}<string>Inner</string><Sfdr>{}{}</Sfdr>", idta(1, 6), item(&seat), item(&flag));
    format!(
        "\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <AfterEffectsProject xmlns=\"http://www.adobe.com/products/aftereffects\" majorVersion=\"1\">\n\
         <head bdata=\"00\"/><Fold>{}{}{}{}</Fold>\n\
         <ProjectXMPMetadata><![CDATA[<?xpacket begin=\"\" ?><x>]]></ProjectXMPMetadata></AfterEffectsProject>",
        item(&folder),
        item(&main),
        item(&logo),
        item(&solid)
    )
}

fn read(name: &str, text: &str) -> Result<Template, String> {
    read_template(Path::new(name), text.as_bytes()).map_err(|wrong| wrong.problems()[0].headline())
}

#[test]
fn compositions_and_layers_of_a_project_are_read() {
    let template = read("cyprus.aepx", &project()).unwrap();

    let [seat, main] = template.compositions.as_slice() else { panic!("{template:?}") };
    let told = |layer: &Layer| (layer.name.clone(), layer.kind, layer.composition.clone());
    let expected = |name: &str, kind| (name.to_owned(), kind, None);
    assert_eq!((template.project.as_deref(), main.name.as_str()), (Some("cyprus.aep"), "_MAIN & Mini"));
    assert_eq!((main.width, main.height, main.duration), (Some(1920), Some(1080), Some(5.0)));
    assert!((main.frame_rate.unwrap() - 29.97).abs() < 0.001, "{main:?}");
    assert_eq!(
        main.layers.iter().map(told).collect::<Vec<_>>(),
        [
            expected("Name 1", LayerType::Text),
            expected("Flag", LayerType::Image),
            expected("A&B.png", LayerType::Image),
            ("Seat 1".to_owned(), LayerType::Composition, Some("Seat 1".to_owned())),
            expected("Box", LayerType::Other),
            expected("Camera 1", LayerType::Other),
        ]
    );
    assert_eq!(seat.layers[0].name, "칩");
}

#[test]
fn a_report_is_read_and_one_that_is_wrong_is_told_with_its_line() {
    let report = "{\"project\": \"a.aep\",\n \"compositions\": [{\"name\": \"A\", \"frame_rate\": 25,\n  \
                  \"layers\": [{\"name\": \"B\", \"type\": \"text\"}]}]}";

    let template = read("-", report).unwrap();
    assert_eq!(
        (template.project.as_deref(), template.compositions[0].frame_rate),
        (Some("a.aep"), Some(25.0))
    );

    for (from, to, part) in [
        ("\"text\"", "\"txt\"", "line 3"),
        ("\"frame_rate\"", "\"rate\"", "line 2"),
        ("[{\"name\": \"A\"", "[{\"nme\": \"A\"", "unknown field"),
    ] {
        let why = read("r.json", &report.replace(from, to)).unwrap_err();
        assert!(why.starts_with("r.json: ") && why.contains(part), "{why}");
    }
}

#[test]
fn what_is_no_project_is_refused_with_a_way_out() {
    let refused = |bytes: &[u8]| {
        let wrong = read_template(Path::new("a.aep"), bytes).unwrap_err();
        format!("{} {}", wrong.problems()[0].what, wrong.problems()[0].fix)
    };

    assert!(refused(b"RIFX\0\0\x01\xffEgg!").contains("Save a Copy As XML"));
    let deep = format!("<AfterEffectsProject>{}", "<a>".repeat(300));
    let many = format!("<AfterEffectsProject>{}", item("").repeat(100_001));
    let project = project();
    let entity = project.replace("&amp;", "&lol;");
    for (text, part) in [
        ("", "EOF"),
        ("<?xml version=\"1.0\"?>", "not a project"),
        ("<project/>", "not a project"),
        ("<project></project>", "not a project"),
        (&project[..project.len() - 30], "the XML"),
        (&deep, "levels"),
        (&many, "more than 100000 items"),
        (&entity, "broken"),
        ("<AfterEffectsProject></AfterEffectsProject>", "no composition"),
        ("{\"compositions\": []}", "no composition"),
    ] {
        assert!(refused(text.as_bytes()).contains(part), "{part}: {}", refused(text.as_bytes()));
    }
    assert!(refused(b"<AfterEffectsProject>\xff").contains("UTF-8"));
}

proptest! {
    #[test]
    fn any_damage_to_a_project_is_read_or_refused_without_a_panic(
        at in 0..8_000_usize, length in 0..40_usize, by in "[<>/&;\"a0-]{0,6}",
    ) {
        let mut text = project();
        let start = text.floor_char_boundary(at);
        let end = text.floor_char_boundary(start + length).max(start);
        text.replace_range(start..end, &by);
        let _answer = read("a.aepx", &text);
    }
}
