//! Which process of which kernel this is, and whether another one of the same kernel has ended; from `/proc` of Linux.

use crate::system;
use std::fs;
use tidemill_domain::process::{Incarnation, PidState};

/// None where the kernel does not say it, or `/proc` is that of other pids.
pub fn own() -> Option<Incarnation> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace =
        |kind: &str| Some(fs::read_link(format!("/proc/self/ns/{kind}")).ok()?.display().to_string());
    // Old kernels have no time namespaces. Machines that were copied while they ran have the same boot, and mostly other names.
    let place = format!(
        "{}/{}/{}/{}",
        system::host_name(),
        boot.trim(),
        namespace("pid")?,
        namespace("time").unwrap_or_default()
    );
    let pid = std::process::id();
    if fs::read_link("/proc/self").ok()?.to_str() != Some(pid.to_string().as_str()) {
        return None;
    }
    match look_up(pid) {
        PidState::Taken { started } if !place.contains(' ') => Some(Incarnation { place, pid, started }),
        _ => None,
    }
}

pub fn look_up(pid: u32) -> PidState {
    // `/proc` may hide the processes of other users, but this answer is certain.
    if system::is_free(pid) {
        return PidState::Free;
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.ok().and_then(|stat| state_of(&stat)).unwrap_or(PidState::Hidden)
}

/// The fields behind the name of the program, which may contain anything: the state is the first, the start the 20th.
fn state_of(stat: &str) -> Option<PidState> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    if matches!(fields.next()?, "Z" | "X" | "x") {
        return Some(PidState::Free);
    }
    Some(PidState::Taken { started: fields.nth(18)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn this_process_is_there_and_a_child_is_until_it_has_ended() {
        let own = own().unwrap();
        assert!(!own.has_ended(&own.place, look_up(own.pid)));
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let found = look_up(child.id());
        let PidState::Taken { started } = found else { panic!("{found:?}") };
        let killed = Incarnation { pid: child.id(), started, ..own.clone() };
        assert!(!killed.has_ended(&own.place, look_up(killed.pid)));

        child.kill().unwrap();
        // It becomes a zombie, and after the wait its pid is free.
        for _ in 0..2_000 {
            if look_up(killed.pid) != found {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(killed.has_ended(&own.place, look_up(killed.pid)));
        child.wait().unwrap();

        assert!(killed.has_ended(&own.place, look_up(killed.pid)));
    }

    #[test]
    fn the_name_of_a_program_does_not_shift_the_fields() {
        let fields = (4..=24).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        for name in ["cat", "a b", "a) Z (b", ") S"] {
            assert_eq!(state_of(&format!("7 ({name}) S {fields}\n")), Some(PidState::Taken { started: 22 }));
        }
        assert_eq!(state_of(&format!("7 (cat) Z {fields}\n")), Some(PidState::Free));
        assert_eq!(state_of("7 (cat) S 1 2"), None);
    }
}
