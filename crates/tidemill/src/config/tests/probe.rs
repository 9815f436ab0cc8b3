//! Programs that look after leases in doubt.

use super::stage::Stage;
use std::time::Duration;
use tidemill_domain::code::Code;

#[test]
fn a_probe_is_read_with_its_arguments() {
    let stage = Stage::new().project(
        "[pools.probe.ADW]\ncommand = [\"/opt/probe.sh\", \"two words\", \"\"]\nevery = \"2m\"\n\n\
         [pools.probe.erp-2]\ncommand = [\"probe\"]\n",
    );
    let loaded = stage.load().unwrap();

    let [adw, erp] = &loaded.settings.probes[..] else { panic!("{:?}", loaded.settings.probes) };
    assert_eq!((adw.pool.as_str(), erp.pool.as_str()), ("ADW", "erp-2"));
    assert_eq!(adw.command, ["/opt/probe.sh", "two words", ""]);
    assert_eq!((adw.every, adw.timeout), (Duration::from_secs(120), Duration::from_secs(30)));
    assert_eq!(erp.every, Duration::from_secs(60));
    let shown = loaded.sections.iter().find(|value| value.path == "pools.probe.erp-2.command").unwrap();
    assert_eq!(shown.shown, "probe");
}

#[test]
fn what_is_missing_or_misspelt_is_refused() {
    for (text, code, helps) in [
        ("[pools.probe.ADW]\nevery = \"1m\"", Code::BadValue, "add command"),
        ("[pools.probe.ADW]\ncommand = []", Code::BadValue, "command"),
        ("[pools.probe.ADW]\ncommand = [\"\"]", Code::BadValue, "command"),
        ("[pools.probe.ADW]\ncommand = \"/opt/probe.sh\"", Code::BadValue, "write a list"),
        ("[pools.probe.ADW]\ncommand = [\"a\\u0000b\"]", Code::BadValue, "command"),
        ("[pools.probe.ADW]\ncommand = [\"a\"]\ntimeout = \"1ms\"", Code::BadValue, "at least"),
        ("[pools.probe.ADW]\ncomand = [\"a\"]", Code::UnknownKey, "pools.probe.ADW.command"),
        ("[pools.probes.ADW]\ncommand = [\"a\"]", Code::UnknownKey, "pools.probe"),
        ("[pools.probe.-x]\ncommand = [\"a\"]", Code::UnknownKey, ""),
        ("[pools]\nprobe = 1", Code::UnknownKey, ""),
    ] {
        let error = Stage::new().project(text).load().unwrap_err();
        let told: Vec<_> = error.problems().iter().filter(|problem| problem.code() == code).collect();
        assert!(!told.is_empty() && told[0].fix().contains(helps), "{text}: {error:?}");
    }
}
