// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of the host in a result.

use serde_json::{Value, json};

use corehop_system::discover::identity;
use corehop_system::proc;

/// Describes the kernel and the processor of this host.
pub(super) fn describe() -> Value {
    let text = |path: &str| proc::text(path).map(|text| text.trim().to_owned()).ok();
    let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
    json!({
        "kernel": text("/proc/sys/kernel/osrelease"),
        "kernel_version": text("/proc/sys/kernel/version"),
        "kernel_command_line": text("/proc/cmdline"),
        "processor": field(&cpuinfo, "model name"),
        "microcode": field(&cpuinfo, "microcode"),
        "identity": identity(),
        "load_average": text("/proc/loadavg"),
    })
}

/// The first value of a field of `/proc/cpuinfo`.
fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let of_name = |&(key, _): &(&str, &str)| key.trim() == name;
    fields.into_iter().find(of_name).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_processors_field_is_taken_and_a_missing_one_is_none() {
        let text = "processor\t: 0\nmodel name\t: A: fast\n\nprocessor\t: 1\nmodel name\t: B\n";
        assert_eq!(field(text, "model name"), Some("A: fast"));
        assert_eq!(field(text, "microcode"), None);
    }
}
