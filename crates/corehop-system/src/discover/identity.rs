// SPDX-License-Identifier: MIT OR Apache-2.0
//! Discovers the identity of the processor: its name, hypervisor, clocks and kinds of core.

use std::collections::BTreeMap;

use corehop_plan::platform::{Clock, Core, CoreKind, Fact, Hertz};
use corehop_plan::units::{Cpu, CpuList};

use corehop_plan::experiment::digest;

use super::topology::CPUS;
use super::{DiscoverError, SysRoot};
use crate::proc;

/// The text of `/proc/cpuinfo`, if the file exists.
pub(super) struct CpuInfo(String);

const CPUINFO: &str = "proc/cpuinfo";

impl CpuInfo {
    pub(super) fn read(root: &SysRoot) -> Self {
        Self(root.read(CPUINFO).unwrap_or_default())
    }
    /// The value of the first line `KEY : VALUE`.
    fn get(&self, key: &str) -> Option<&str> {
        let lines = self.0.lines().filter_map(|line| line.split_once(':'));
        let mut values = lines.filter(|(name, _)| name.trim() == key);
        values.next().map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }
    fn has_flag(&self, flag: &str) -> bool {
        self.get("flags").is_some_and(|flags| flags.split(' ').any(|other| other == flag))
    }
    fn is_x86(&self) -> bool {
        self.get("flags").is_some()
    }
    /// The maker of the processor.
    pub(super) fn vendor(&self) -> Option<Fact<String>> {
        let maker = |code: &str| match code {
            "0x41" => "Arm".to_owned(),
            "0x51" => "Qualcomm".to_owned(),
            "0x61" => "Apple".to_owned(),
            "0xc0" => "Ampere".to_owned(),
            other => format!("implementer {other}"),
        };
        let vendor = self.get("vendor_id").map(ToOwned::to_owned);
        let vendor = vendor.or_else(|| self.get("CPU implementer").map(maker));
        vendor.map(|vendor| Fact::cited(vendor, format!("/{CPUINFO}")))
    }
    /// The vendor's name for the processor model.
    pub(super) fn model(&self) -> Option<Fact<String>> {
        let name = self.get("model name").map(ToOwned::to_owned);
        let name = name.or_else(|| self.get("CPU part").map(part_name));
        name.map(|name| Fact::cited(name, format!("/{CPUINFO}")))
    }
    /// The part numbers of all CPUs on Arm, read together because the file has a paragraph for each CPU.
    fn parts(&self) -> BTreeMap<Cpu, &str> {
        let mut here = None;
        let mut parts = BTreeMap::new();
        for (key, value) in self.0.lines().filter_map(|line| line.split_once(':')) {
            match (key.trim(), here) {
                ("processor", _) => here = value.trim().parse().ok().map(Cpu),
                ("CPU part", Some(cpu)) => {
                    parts.entry(cpu).or_insert(value.trim());
                }
                _ => {}
            }
        }
        parts
    }
}

/// The name of an Arm core by its part number (Arm, "Main ID Register" in each core's reference manual).
fn part_name(part: &str) -> String {
    match part {
        "0xd03" => "Cortex-A53",
        "0xd04" => "Cortex-A35",
        "0xd05" => "Cortex-A55",
        "0xd07" => "Cortex-A57",
        "0xd08" => "Cortex-A72",
        "0xd09" => "Cortex-A73",
        "0xd0a" => "Cortex-A75",
        "0xd0b" => "Cortex-A76",
        "0xd0c" => "Neoverse N1",
        "0xd40" => "Neoverse V1",
        "0xd41" => "Cortex-A78",
        "0xd49" => "Neoverse N2",
        "0xd4f" => "Neoverse V2",
        other => return format!("part {other}"),
    }
    .to_owned()
}

/// The model without trade marks, and the number of CPUs, to distinguish machines at a glance.
pub(super) fn title(model: Option<&Fact<String>>, cpus: usize) -> String {
    let model = model.map_or("unnamed processor", |model| model.value.as_str());
    let plain = model.split('@').next().unwrap_or(model);
    let plain = ["(R)", "(TM)", "(r)", "(tm)", " CPU"]
        .into_iter()
        .fold(plain.to_owned(), |text, mark| text.replace(mark, ""));
    let words: Vec<_> = plain.split_whitespace().collect();
    let noun = if cpus == 1 { "CPU" } else { "CPUs" };
    format!("{}, {cpus} {noun}", words.join(" "))
}

/// The title as an ID: lower-case letters, digits and single underscores.
pub(super) fn id(title: &str) -> String {
    let lower = title.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}

/// The title, and the hypervisor if the machine is a guest.
pub(super) fn name(title: &str, hypervisor: Option<&Fact<String>>) -> String {
    match hypervisor {
        None => title.to_owned(),
        Some(host) if host.value == "unknown" => format!("{title}, a guest"),
        Some(host) => format!("{title}, a guest under {}", host.value),
    }
}

/// The hypervisor, determined from the kernel, the processor, the firmware and the clocks.
pub(super) fn hypervisor(root: &SysRoot, info: &CpuInfo) -> Option<Fact<String>> {
    if let Some(kind) = root.read("sys/hypervisor/type").filter(|kind| !kind.is_empty()) {
        return Some(Fact::cited(kind, "/sys/hypervisor/type"));
    }
    // A processor of the x86 family says whether it is a guest; another one is asked by its tree.
    if info.is_x86() && !info.has_flag("hypervisor") {
        return None;
    }
    if let Some(name) = root.is_live().then(signature).flatten() {
        return Some(Fact::cited(name, "CPUID leaf 0x40000000"));
    }
    let compatible = "proc/device-tree/hypervisor/compatible";
    if let Some(text) = root.read(compatible) {
        let name = text.trim_start_matches("linux,").to_owned();
        return Some(Fact::cited(name, format!("/{compatible}")));
    }
    for file in ["sys_vendor", "product_name"] {
        let path = format!("sys/class/dmi/id/{file}");
        if let Some(name) = root.read(&path).and_then(|text| firmware(&text)) {
            return Some(Fact::cited(name.to_owned(), format!("/{path}")));
        }
    }
    let clocks = "sys/devices/system/clocksource/clocksource0/available_clocksource";
    let text = root.read(clocks).unwrap_or_default();
    for (clock, name) in [("kvm-clock", "kvm"), ("hyperv", "hyperv"), ("xen", "xen")] {
        if text.contains(clock) {
            return Some(Fact::cited(name.to_owned(), format!("/{clocks}")));
        }
    }
    let flag = info.is_x86().then(|| "unknown".to_owned());
    flag.map(|name| Fact::cited(name, format!("/{CPUINFO}, flag hypervisor")))
}

/// The hypervisor that uses firmware with this name.
fn firmware(text: &str) -> Option<&'static str> {
    let names = [
        ("QEMU", "kvm"),
        ("KVM", "kvm"),
        ("VMware", "vmware"),
        ("Xen", "xen"),
        ("innotek", "virtualbox"),
        ("VirtualBox", "virtualbox"),
        ("Parallels", "parallels"),
        ("Virtual Machine", "hyperv"),
    ];
    names.into_iter().find(|(mark, _)| text.contains(mark)).map(|(_, name)| name)
}

/// The signature of the hypervisor, if the processor reports one.
#[cfg(target_arch = "x86_64")]
fn signature() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    if __cpuid(1).ecx >> 31 == 0 {
        return None;
    }
    let leaf = __cpuid(0x4000_0000);
    let bytes = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
    let text: String = bytes.iter().filter(|&&byte| byte != 0).map(|&byte| byte as char).collect();
    Some(
        match text.as_str() {
            "KVMKVMKVM" => "kvm",
            "Microsoft Hv" => "hyperv",
            "VMwareVMware" => "vmware",
            "XenVMMXenVMM" => "xen",
            "TCGTCGTCGTCG" => "qemu_tcg",
            "bhyve bhyve " => "bhyve",
            _ => return None,
        }
        .to_owned(),
    )
}

#[cfg(not(target_arch = "x86_64"))]
fn signature() -> Option<String> {
    None
}

/// The clocks, as far as files state them.
pub(super) fn clock(root: &SysRoot, info: &CpuInfo) -> Result<Clock, DiscoverError> {
    let source = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    let steady = info.has_flag("constant_tsc") && info.has_flag("nonstop_tsc");
    Ok(Clock {
        core: core_frequency(root, info)?,
        counter: None,
        invariant: info.is_x86().then(|| Fact::cited(steady, format!("/{CPUINFO}, flags"))),
        after_idle: None,
        waking: None,
        source: root.read(source).map(|name| Fact::cited(name, format!("/{source}"))),
    })
}

/// The nominal frequency; if no nominal frequency is stated, the highest frequency; if the kernel does not control the
/// frequency, as in a guest, the frequency in `/proc/cpuinfo`.
fn core_frequency(root: &SysRoot, info: &CpuInfo) -> Result<Option<Fact<Hertz>>, DiscoverError> {
    for file in ["base_frequency", "cpuinfo_max_freq"] {
        let path = format!("{CPUS}/cpu0/cpufreq/{file}");
        if let Some(khz) = root.parsed::<u64>(&path)? {
            return Ok(Some(Fact::cited(Hertz::new(khz * 1_000), format!("/{path}"))));
        }
    }
    let megahertz = info.get("cpu MHz").and_then(|text| format!("{text} MHz").parse().ok());
    Ok(megahertz.map(|hertz| Fact::cited(hertz, format!("/{CPUINFO}, cpu MHz"))))
}

/// The kinds of core, if the kernel distinguishes several.
pub(super) fn core_kinds(
    root: &SysRoot,
    online: &CpuList,
    info: &CpuInfo,
) -> Result<Vec<CoreKind>, DiscoverError> {
    let hybrid = hybrid_kinds(root, online)?;
    if !hybrid.is_empty() {
        return Ok(hybrid);
    }
    let parts = info.parts();
    let mut kinds: BTreeMap<(Option<u32>, Option<&str>), Vec<Cpu>> = BTreeMap::new();
    for cpu in online.iter() {
        let capacity = root.parsed(format!("{CPUS}/cpu{}/cpu_capacity", cpu.0))?;
        kinds.entry((capacity, parts.get(&cpu).copied())).or_default().push(cpu);
    }
    if kinds.len() < 2 {
        return Ok(Vec::new());
    }
    let place = |first: Cpu| format!("/{CPUS}/cpu{}/cpu_capacity", first.0);
    let kind = |((capacity, part), cpus): ((Option<u32>, Option<&str>), Vec<Cpu>)| CoreKind {
        name: part.map_or_else(|| format!("capacity {}", capacity.unwrap_or(0)), part_name),
        capacity: capacity.map(|capacity| Fact::cited(capacity, place(cpus[0]))),
        cpus: Fact::cited(CpuList::new(cpus), told_by(capacity.is_some(), part.is_some())),
        frequency: None,
        core: Core::default(),
    };
    Ok(kinds.into_iter().map(kind).collect())
}

/// The files that distinguish a kind of core.
fn told_by(capacity: bool, part: bool) -> String {
    let (capacities, parts) = (format!("/{CPUS}/cpu*/cpu_capacity"), format!("/{CPUINFO}"));
    let files = [capacity.then_some(capacities), part.then_some(parts)];
    let files: Vec<String> = files.into_iter().flatten().collect();
    if files.is_empty() { format!("/{CPUS}, its folders") } else { files.join(", ") }
}

/// The two kinds of core that Intel's hybrid processors register as two sets of counters.
fn hybrid_kinds(root: &SysRoot, online: &CpuList) -> Result<Vec<CoreKind>, DiscoverError> {
    let mut kinds = Vec::new();
    for name in ["cpu_core", "cpu_atom"] {
        let path = format!("sys/devices/{name}/cpus");
        let Some(cpus) = root.parsed::<CpuList>(&path)? else { continue };
        let cpus = cpus.intersection(online);
        let Some(first) = cpus.first() else { continue };
        let capacity = format!("{CPUS}/cpu{}/cpu_capacity", first.0);
        kinds.push(CoreKind {
            name: name.to_owned(),
            cpus: Fact::cited(cpus, format!("/{path}")),
            capacity: root
                .parsed(&capacity)?
                .map(|value| Fact::cited(value, format!("/{capacity}"))),
            frequency: None,
            core: Core::default(),
        });
    }
    Ok(if kinds.len() == 2 { kinds } else { Vec::new() })
}
/// Returns a digest of the system's installation ID (machine-id(5)), because the ID itself must not be disclosed;
/// `None` if the system has no such ID.
pub fn identity() -> Option<String> {
    let id = proc::text("/etc/machine-id").ok()?;
    let id = id.trim();
    (!id.is_empty()).then(|| digest(&format!("corehop {id}")))
}
