// SPDX-License-Identifier: MIT OR Apache-2.0
//! The environment of processes for the description of a placement: service, cgroup and threads.

use std::path::{Component, Path};

use corehop_plan::host::residence::Residence;

use crate::limits::folders;
use corehop_system::discover::SysRoot;
use corehop_system::proc::{self, CgroupEntry, ProcEntry, shown};

/// Returns the surroundings of each process that still lives: its service, its cgroup and its threads.
pub fn residences(pids: &[u32]) -> Vec<Residence> {
    pids.iter().filter_map(|&pid| residence(pid)).collect()
}

fn residence(pid: u32) -> Option<Residence> {
    let task = ProcEntry::process(pid);
    let name = task.name().ok()?;
    let threads = task.threads().ok()?.collect();
    let text = task.bytes("cgroup").unwrap_or_default();
    let (unit, cgroup, folder) = of_groups(&text);
    let has_file = |it: &String| SysRoot::live().read(Path::new(it).join("cpuset.cpus")).is_some();
    let cpuset = folder.filter(has_file).map(|it| format!("/{it}"));
    Some(Residence { pid, name, unit, cgroup, cpuset, threads })
}

/// The service, the path of the cgroup that restricts CPUs, and its folder, from the text of a `cgroup` file.
fn of_groups(text: &[u8]) -> (Option<String>, Option<String>, Option<String>) {
    let unit = proc::groups(text).find_map(|it| service(it.path));
    let own = proc::groups(text).find(|it| !it.is_unified() && it.has("cpuset"));
    let Some(group) = own.or_else(|| proc::groups(text).find(CgroupEntry::is_unified)) else {
        return (unit, None, None);
    };
    let name = |path: &Path| shown(path.as_os_str().as_encoded_bytes());
    let is_root = group.below().as_os_str().is_empty();
    let folder = folders(text, "cpuset").into_iter().next().filter(|_| !is_root);
    (unit, Some(name(group.path)), folder.map(|it| name(&it)))
}

/// The innermost service in the path of a cgroup. A name that systemd would not assign does not count.
fn service(path: &Path) -> Option<String> {
    let plain =
        |it: char| it.is_ascii_alphanumeric() || matches!(it, ':' | '_' | '.' | '@' | '-' | '\\');
    let mut words = path.components().filter_map(|component| match component {
        Component::Normal(word) => word.to_str(),
        _ => None,
    });
    let is_one = |it: &&str| {
        it.len() > ".service".len() && it.ends_with(".service") && it.chars().all(plain)
    };
    words.rfind(is_one).map(str::to_owned)
}

/// Returns the kernel release and the load averages.
pub fn kernel_and_load() -> [String; 2] {
    let text = |path: &str| proc::text(path).map(|it| it.trim().to_owned()).unwrap_or_default();
    let load = text("/proc/loadavg");
    let averages = load.split(' ').take(3).collect::<Vec<_>>().join(" ");
    [text("/proc/sys/kernel/osrelease"), averages]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_and_the_cgroup_with_cpus_are_read_from_either_version() {
        let of = |text: &str| of_groups(text.as_bytes());
        let some = |it: &str| Some(it.to_owned());
        let two = of("0::/system.slice/redis.service\n");
        let folder = some("sys/fs/cgroup/system.slice/redis.service");
        assert_eq!(two, (some("redis.service"), some("/system.slice/redis.service"), folder));
        let one = of("4:cpuset:/docker/abc\n1:name=systemd:/system.slice/docker.service\n");
        let folder = some("sys/fs/cgroup/cpuset/docker/abc");
        assert_eq!(one, (some("docker.service"), some("/docker/abc"), folder));
        // The root would confine the whole host.
        assert_eq!(of("0::/\n"), (None, some("/"), None));
        assert_eq!(of(""), (None, None, None));
        let nested = of("0::/user@0.service/app.slice/web.service/sub\n").0;
        assert_eq!(nested, some("web.service"));
        assert_eq!(of("0::/a b;c.service\n").0, None, "no name of systemd's");
    }

    #[test]
    fn this_process_lives_somewhere_with_its_threads_and_a_dead_one_does_not() {
        let own = std::process::id();
        let [it] = &residences(&[own, 4_100_000])[..] else { panic!("one") };
        assert!(it.pid == own && !it.name.is_empty() && it.threads.contains(&own), "{it:?}");
        assert!(kernel_and_load().iter().all(|it| !it.is_empty()));
    }
}
