//! `cargo xtask chaos outbox`: the test of the outbox that kills relays, for as long and as often as one likes.

use super::{SEEDS, misunderstood};
use crate::kafka;
use crate::process::{cargo, run_in_terminal};
use crate::supervise::Cancel;
use std::process::ExitCode;

/// What is published, and where to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// The outbox to a file.
    File,
    /// The outbox to a real Kafka.
    Kafka,
    /// The outbox to a real Kafka, with transactions.
    Transactional,
    /// A table that was there before, to a file.
    Attached,
}

impl Way {
    /// The test that does it.
    fn test(self) -> &'static str {
        match self {
            Self::File => {
                "outbox_chaos::nothing_is_lost_or_out_of_order_on_postgres_whatever_happens_to_relays_and_database"
            }
            Self::Kafka => {
                "outbox_chaos::nothing_is_lost_or_out_of_order_in_kafka_whatever_happens_to_relays_database_and_broker"
            }
            Self::Transactional => {
                "outbox_chaos::nothing_is_there_twice_in_kafka_with_transactions_whatever_happens_to_relays_database_and_broker"
            }
            Self::Attached => {
                "outbox_chaos::nothing_of_an_attached_table_is_lost_or_out_of_order_whatever_happens_to_relays_and_database"
            }
        }
    }
}

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Order {
    way: Way,
    kills: u64,
    minutes: u64,
    seed: u64,
}

/// Runs the test with what `arguments` ask for.
pub(super) fn run(arguments: &[String], cancel: &Cancel) -> ExitCode {
    let order = match parse(arguments, fastrand::u64(..SEEDS)) {
        Ok(order) => order,
        Err(problem) => return misunderstood(&problem),
    };
    println!("{} kills in about {} minutes, --seed {}", order.kills, order.minutes, order.seed);
    let words = ["test", "-p", "tidemill", "--test", "cli", "--", "--exact", order.way.test(), "--nocapture"];
    let mut command = cargo(&words);
    command.env("TIDEMILL_TEST_KILLS", order.kills.to_string());
    command.env("TIDEMILL_TEST_SECONDS", (order.minutes * 60).to_string());
    command.env("TIDEMILL_TEST_SEED", order.seed.to_string());
    let told = match order.way {
        Way::Kafka | Way::Transactional => kafka::tell(&mut command, cancel),
        Way::File | Way::Attached => Ok(()),
    };
    match told.and_then(|()| run_in_terminal(command, cancel)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("xtask: chaos: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String], seed: u64) -> Result<Order, String> {
    let mut order = Order { way: Way::File, kills: 100, minutes: 5, seed };
    let mut rest = arguments;
    while let Some((name, more)) = rest.split_first() {
        let way = match name.as_str() {
            "--kafka" => Some(Way::Kafka),
            "--transactional" => Some(Way::Transactional),
            "--attached" => Some(Way::Attached),
            _ => None,
        };
        if let Some(way) = way {
            if order.way != Way::File {
                return Err("--kafka, --transactional and --attached are runs of their own".to_owned());
            }
            (order.way, rest) = (way, more);
            continue;
        }
        let Some((value, more)) = more.split_first() else { return Err(format!("{name} needs a number")) };
        let number: u64 = value.parse().map_err(|_| format!("{name} needs a number, not {value:?}"))?;
        match name.as_str() {
            "--kills" => order.kills = number,
            "--minutes" => order.minutes = number,
            "--seed" => order.seed = number,
            _ => return Err(format!("cannot understand {name}")),
        }
        rest = more;
    }
    if order.kills == 0 || order.minutes == 0 {
        return Err("without kills and minutes there is nothing to see".to_owned());
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expected: Result<Order, &str>) {
        let given: Vec<String> = given.split_whitespace().map(str::to_owned).collect();
        assert_eq!(parse(&given, 7), expected.map_err(str::to_owned));
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let usual = Order { way: Way::File, kills: 100, minutes: 5, seed: 7 };
        check("", Ok(usual));
        check("--kills 3 --seed 9 --minutes 1", Ok(Order { kills: 3, minutes: 1, seed: 9, ..usual }));
        check("--kafka --kills 3", Ok(Order { way: Way::Kafka, kills: 3, ..usual }));
        check("--transactional", Ok(Order { way: Way::Transactional, ..usual }));
        check("--minutes 1 --attached", Ok(Order { way: Way::Attached, minutes: 1, ..usual }));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        check("--kills", Err("--kills needs a number"));
        check("--kills many", Err("--kills needs a number, not \"many\""));
        check("--rows 3", Err("cannot understand --rows"));
        check("--kafka --attached", Err("--kafka, --transactional and --attached are runs of their own"));
        check("--kills 0", Err("without kills and minutes there is nothing to see"));
    }
}
