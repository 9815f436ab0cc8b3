//! Programs that scale with the demand of a pool.

use super::stage::Stage;
use std::time::Duration;

const ADW: &str = "[pools.on_demand.ADW]\ncommand = [\"/opt/scale.sh\", \"adw\"]\n";

#[test]
fn a_program_is_read_with_its_thresholds() {
    let text = format!("{ADW}scale_up_at = 80\nscale_down_at = 20\nhold = \"5m\"\n");
    let loaded = Stage::new().project(&text).load().unwrap();

    let [adw] = &loaded.settings.on_demand[..] else { panic!("{:?}", loaded.settings.on_demand) };
    assert_eq!((adw.pool.as_str(), &adw.command[..]), ("ADW", &["/opt/scale.sh".into(), "adw".into()][..]));
    let thresholds = adw.thresholds;
    assert_eq!((thresholds.scale_up_at, thresholds.scale_down_at), (80, 20));
    assert_eq!(thresholds.hold, Duration::from_secs(300));
    assert_eq!((adw.every, adw.timeout), (Duration::from_secs(30), Duration::from_secs(600)));
}

#[test]
fn thresholds_have_a_band_between_them() {
    for (text, helps) in [
        (format!("{ADW}scale_up_at = 80"), "add scale_down_at"),
        (format!("{ADW}scale_down_at = 20"), "add scale_up_at"),
        (format!("{ADW}scale_up_at = 80\nscale_down_at = 80"), "make it less"),
        (format!("{ADW}scale_up_at = 0\nscale_down_at = 0"), "from 1"),
        ("[pools.on_demand.-x]\nscale_up_at = 1".to_owned(), ""),
    ] {
        let error = Stage::new().project(&text).load().unwrap_err();
        let problems = error.problems();
        assert!(problems.iter().any(|problem| problem.fix().contains(helps)), "{text}: {error:?}");
    }
}
