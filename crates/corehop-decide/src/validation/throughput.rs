// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares published tables of the throughput effect of off-load with the simulated machine.
//!
//! The load of a table comes from printed values: the shares of time by mode on one complex core, and the time per
//! unit of work on that core. Each kernel of the table is an arm of the simulated off-load, and each chip is a
//! platform whose second half of cores are the OS cores.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::aim::{ClassConcordance, ErrorLimits};
use super::printed_number::{ErrorLaw, PrintedNumber};
use super::sheet::{
    JudgementRole, MarkedRows, PrintedQuantity, QuantityErrors, Sheet, ValidationRow, numbers_of,
    role_among,
};
use super::table_text::lines;
use super::tables::are_apart;
use super::{Lab, PublishedStudy, PublishedStudyError, StudyHeading, ValidationError, described};
use corehop_plan::machine::MachineError;
use corehop_plan::platform::Platform;
use corehop_plan::units::{CpuList, Nanos};
use corehop_plan::workload::switching::SwitchMechanism;
use corehop_sim::switch::off_load::{
    CallAftermath, Flags, OffLoadArm, OffLoadWorkload, SwitchLatencies, off_load,
};

/// The name of the judged quantity.
const THROUGHPUT: &str = "throughput";
/// The chip to which the printed shares of time and unit times refer.
const ONE_CORE: &str = "m5_c";
/// The number of calls that one thread makes on the chip [`ONE_CORE`] in a run.
const CALLS: u64 = 20_000;

/// A table of throughputs, and the loads behind it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThroughputStudy {
    /// The name of the study.
    pub id: String,
    /// The title of the printed table, with its source.
    pub title: String,
    /// The platform ID of the table's first row. Each row names its own platform.
    pub platform: String,
    /// The number of runs averaged in each value.
    pub samples: u32,
    /// The time in which the printed units were completed.
    pub window: Nanos,
    /// Whether the unmodified kernel runs threads only on the OS cores: a single thread stays where the kernel of 2009
    /// starts it (section 8.3). If not, the unmodified kernel runs threads on any idle core, the fastest core first.
    #[serde(default)]
    pub unmodified_on_os_cores: bool,
    /// The loads, by network speed.
    pub loads: Vec<PrintedLoad>,
    /// The accepted errors, and the accepted share of pairs in order.
    pub limits: ErrorLimits,
    /// The rows that do not judge the simulation, with their roles.
    #[serde(default)]
    pub marked: Vec<MarkedRows<ThroughputRows>>,
    /// The printed rows, which come from a separate file.
    #[serde(skip)]
    pub printed: Vec<ThroughputRow>,
}

/// A load as described in print.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedLoad {
    /// The network speed in Gbit/s; 0 without a network.
    pub nic_gbps: u32,
    /// The shares of time by mode on one complex core.
    pub percent: ModeShares,
    /// The time per unit of work on the complex core.
    pub unit: Nanos,
    /// The number of calls per unit that switch cores.
    pub calls: f64,
    /// The share of kernel time that is spent in calls that switch cores.
    pub switched: f64,
    /// The number of threads.
    pub threads: u32,
    /// Whether a thread waits for the interrupts of its calls. In a stream, interrupts come while the thread makes
    /// its calls.
    pub awaited: bool,
    /// Whether calls consist of so many packets that each call takes the same time.
    #[serde(default)]
    pub steady: bool,
    /// The reason why the core is idle for a part of the time.
    pub idle: IdleTime,
    /// The number of units that the network carries in the window, if that is a limit.
    #[serde(default)]
    pub wire: Option<f64>,
}

/// The reason why a core is idle for a part of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleTime {
    /// Each thread waits after its calls.
    Waits,
    /// The network is saturated, so a slower core is idle for less time.
    Wire,
    /// The paper names the processor as the bottleneck, so idle time counts as kernel time.
    Kernel,
}

/// Shares of time by mode, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeShares {
    /// The share of user code.
    pub user: f64,
    /// The share of kernel work for the program.
    pub kernel: f64,
    /// The share of time in which the core serves interrupts.
    pub interrupt: f64,
    /// The share of time in which the core is idle.
    pub idle: f64,
}

/// A selection of rows from a table of throughputs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThroughputRows {
    /// The platform ID of the selected rows.
    pub platform: String,
    /// The kernels of the selected rows; empty selects all kernels.
    #[serde(default)]
    pub kernels: Vec<String>,
}

impl ThroughputRows {
    pub(super) fn has(&self, row: &ThroughputRow) -> bool {
        let is_kernel = self.kernels.is_empty() || self.kernels.contains(&row.kernel.name());
        self.platform == row.platform && is_kernel
    }
}

/// One printed throughput.
#[derive(Debug, Clone, PartialEq)]
pub struct ThroughputRow {
    /// The platform ID of the row.
    pub platform: String,
    /// The network speed in Gbit/s; 0 without a network.
    pub nic_gbps: u32,
    /// The kernel on which the throughput was measured.
    pub kernel: PrintedKernel,
    /// The number of units completed in the window.
    pub value: PrintedNumber,
}

/// A kernel of a table of throughputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrintedKernel {
    /// Linux without changes.
    Unmodified,
    /// Linux with interrupts bound to the OS cores, and the program bound to the other cores.
    Bound,
    /// Linux bound like [`PrintedKernel::Bound`], with core switches by this mechanism.
    Switching(SwitchMechanism),
}

impl PrintedKernel {
    fn name(self) -> String {
        match self {
            Self::Unmodified => "unmodified".to_owned(),
            Self::Bound => "bound".to_owned(),
            Self::Switching(mechanism) => mechanism.to_string(),
        }
    }

    /// The simulated arm that represents this kernel; calls use the OS cores in turn.
    const fn arm(self, unmodified_on_os_cores: bool) -> OffLoadArm {
        match self {
            Self::Unmodified if unmodified_on_os_cores => OffLoadArm::OsCores,
            Self::Unmodified => OffLoadArm::Unmodified,
            Self::Bound => OffLoadArm::Bound,
            Self::Switching(_) => OffLoadArm::Policy(Flags::NONE),
        }
    }
}

impl std::str::FromStr for PrintedKernel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "unmodified" => Ok(Self::Unmodified),
            "bound" => Ok(Self::Bound),
            _ => match text.parse() {
                Ok(mechanism) if SwitchMechanism::is_strong(mechanism) => {
                    Ok(Self::Switching(mechanism))
                }
                _ => Err(format!(
                    "`{text}` is not a kernel; use one of: unmodified, bound, strong-v1 to strong-v5"
                )),
            },
        }
    }
}

impl PrintedLoad {
    /// The load for a chip whose cores need these multiples of the instruction time of [`ONE_CORE`].
    fn workload(
        &self,
        (platform, mechanism): (&Platform, SwitchMechanism),
        scale: f64,
        seed: u64,
    ) -> OffLoadWorkload {
        let ModeShares { user, kernel, interrupt, idle } = self.percent;
        let [kernel, wait] = match self.idle {
            IdleTime::Waits => [kernel, idle],
            IdleTime::Wire => [kernel, 0.0],
            IdleTime::Kernel => [kernel + idle, 0.0],
        };
        let call = self.unit.get() as f64 / self.calls;
        let part = |percent: f64| Nanos::new((call * percent / 100.0).round() as u64);
        let work = |percent: f64| part(percent * scale);
        let cpus: Vec<_> = platform.cpus.value.iter().collect();
        let application = cpus.len().div_ceil(2);
        OffLoadWorkload {
            os_cores: CpuList::new(cpus.into_iter().skip(application)),
            mechanism,
            threads: self.threads,
            compute: work(user + kernel * (1.0 - self.switched)),
            call: work(kernel * self.switched),
            misses: true,
            steady: self.steady,
            after: CallAftermath {
                interrupts: work(interrupt),
                awaited: self.awaited,
                wait: part(wait),
            },
            time: Nanos::new((call * CALLS as f64) as u64),
            seed,
        }
    }
}

/// Simulated switch latencies, by platform, mechanism and seed.
#[derive(Default)]
struct Known(BTreeMap<(String, SwitchMechanism, u64), SwitchLatencies>);

impl Known {
    fn switches(
        &mut self,
        platform: &Platform,
        load: &OffLoadWorkload,
    ) -> Result<&SwitchLatencies, MachineError> {
        let key = (platform.id.clone(), load.mechanism, load.seed);
        if !self.0.contains_key(&key) {
            self.0.insert(key.clone(), SwitchLatencies::simulate(platform, load)?);
        }
        Ok(&self.0[&key])
    }

    /// The instruction time of the fastest core.
    fn fastest(
        &mut self,
        platform: &Platform,
        load: &OffLoadWorkload,
    ) -> Result<f64, MachineError> {
        Ok(self.switches(platform, load)?.fastest() as f64)
    }
}

impl ThroughputStudy {
    /// Parses a study from its description and its table.
    ///
    /// # Errors
    /// Returns [`PublishedStudyError`], which names the problem and its place.
    pub fn new(description: &str, table: &str) -> Result<Self, PublishedStudyError> {
        let mut study: Self = described(description)?;
        for line in lines(table, &["platform", "nic_gbps", "kernel", "value"])? {
            let platform = line.cell("platform").to_owned();
            if Platform::named(&platform).is_none() {
                return Err(line.wrong(format!("`{platform}` is not a platform")));
            }
            let nic_gbps = line.number("nic_gbps")? as u32;
            if study.load(nic_gbps).is_none() {
                return Err(line.wrong(format!("no load has a network of {nic_gbps} Gbit/s")));
            }
            let (kernel, value) = (line.word("kernel")?, line.word("value")?);
            study.printed.push(ThroughputRow { platform, nic_gbps, kernel, value });
        }
        Ok(study)
    }

    fn load(&self, nic_gbps: u32) -> Option<&PrintedLoad> {
        self.loads.iter().find(|it| it.nic_gbps == nic_gbps)
    }

    /// The simulated number of units in the window; `None` if the row's platform does not exist.
    fn simulated(
        &self,
        row: &ThroughputRow,
        seed: u64,
        known: &mut Known,
    ) -> Result<Option<f64>, MachineError> {
        let platform = |id: &str| Platform::named(id)?.ok();
        let chips = platform(&row.platform).zip(platform(ONE_CORE));
        let Some(((chip, one_core), load)) = chips.zip(self.load(row.nic_gbps)) else {
            return Ok(None);
        };
        let mechanism = match row.kernel {
            PrintedKernel::Switching(mechanism) => mechanism,
            _ => SwitchMechanism::StrongV4,
        };
        let stated = load.workload((&chip, mechanism), 1.0, seed);
        let alone = OffLoadWorkload { os_cores: CpuList::default(), ..stated.clone() };
        let scale = known.fastest(&chip, &stated)? / known.fastest(&one_core, &alone)?;
        let workload = load.workload((&chip, mechanism), scale, seed);
        let switches = known.switches(&chip, &workload)?;
        let arm = row.kernel.arm(self.unmodified_on_os_cores);
        let outcome = off_load(&chip, &workload, switches, arm)?;
        let units = outcome.calls_per_second / load.calls * self.window.get() as f64 / 1e9;
        Ok(Some(load.wire.map_or(units, |wire| units.min(wire))))
    }

    /// The mean over several runs.
    fn mean(
        &self,
        row: &ThroughputRow,
        (seed, samples): (u64, u32),
        known: &mut Known,
    ) -> Result<Option<f64>, MachineError> {
        let mut sum = 0.0;
        for run in 0..u64::from(samples) {
            let Some(units) = self.simulated(row, seed + run, known)? else { return Ok(None) };
            sum += units;
        }
        Ok(Some(sum / f64::from(samples)))
    }

    /// The pairs of judged kernels on one chip with clearly different printed values, and the pairs with close
    /// printed values, each with the number of pairs in the printed order.
    fn order(&self, rows: &[ValidationRow]) -> [ClassConcordance; 2] {
        let both = self.printed.iter().zip(rows).filter(|it| it.1.role.judges());
        let judged: Vec<(&ThroughputRow, &ValidationRow)> = both.collect();
        let mut orders = [ClassConcordance { pairs: 0, agree: 0 }; 2];
        for (at, &one) in judged.iter().enumerate() {
            for &other in &judged[at + 1..] {
                let is_less = one.0.value.value < other.0.value.value;
                let (low, high) = if is_less { (one, other) } else { (other, one) };
                let chip = |row: &ThroughputRow| (row.platform.clone(), row.nic_gbps);
                if chip(one.0) == chip(other.0) && low.0.value.value < high.0.value.value {
                    let order = &mut orders[usize::from(!are_apart(low.0.value, high.0.value))];
                    order.pairs += 1;
                    order.agree += usize::from(high.1.simulated > low.1.simulated);
                }
            }
        }
        orders
    }

    fn name(row: &ThroughputRow) -> String {
        let ThroughputRow { platform, nic_gbps, kernel, .. } = row;
        let network = if *nic_gbps > 0 { format!(", {nic_gbps} Gbit/s") } else { String::new() };
        format!("{platform} {}{network}", kernel.name())
    }
}

impl PublishedStudy for ThroughputStudy {
    fn head(&self) -> StudyHeading<'_> {
        StudyHeading { id: &self.id, title: &self.title, platform: &self.platform }
    }

    fn numbers(&self) -> Vec<(JudgementRole, &str)> {
        numbers_of(&self.marked)
    }

    /// Working set sizes do not restrict this study, because its values are about programs.
    fn narrow(&mut self, _: &[u64]) -> bool {
        false
    }

    /// Each row names its own chip.
    fn is_of_one_machine(&self) -> bool {
        false
    }

    /// Each row is simulated on the platform that it names.
    fn judge(&self, _: &Platform, lab: &mut Lab) -> Result<Sheet, ValidationError> {
        let mut samples = lab.samples(self.samples);
        samples.have = samples.have.min(self.samples);
        let (mut rows, mut known) = (Vec::new(), Known::default());
        for row in &self.printed {
            let simulated = self.mean(row, (lab.seed, samples.have), &mut known)?;
            rows.push(ValidationRow {
                what: PrintedQuantity::Point { name: Self::name(row) },
                quantity: Some(THROUGHPUT),
                printed: row.value.value,
                simulated,
                n: None,
                printed_n: None,
                role: role_among(&self.marked, |rows: &ThroughputRows| rows.has(row)),
                error: simulated.map(|simulated| ErrorLaw::Relative.error(row.value, simulated)),
            });
        }
        let [order, near] = self.order(&rows).map(|it| Some(it).filter(|it| it.pairs > 0));
        let errors = QuantityErrors::new(THROUGHPUT, ErrorLaw::Relative, Some(self.limits));
        let quantities = vec![QuantityErrors { order, near, ..errors }];
        Ok(Sheet::judged(self.head(), (samples, "runs a value"), rows, quantities))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESCRIPTION: &str = r#"
        id = "made-up"
        title = "x"
        platform = "m5_c"
        samples = 1
        window = "1 s"
        unmodified_on_os_cores = true
        limits = { median = 0.1, p90 = 0.2, order = 0.9 }
        [[loads]]
        nic_gbps = 1
        percent = { user = 50.0, kernel = 20.0, interrupt = 10.0, idle = 20.0 }
        unit = "100 us"
        calls = 2.0
        switched = 0.25
        threads = 1
        awaited = true
        idle = "waits"
        [[marked]]
        role = "fitted"
        rows = { platform = "m5_c" }
        numbers = ["time of a unit"]
    "#;
    const HEADER: &str = "platform,nic_gbps,kernel,value\n";

    fn study(rows: &str) -> ThroughputStudy {
        ThroughputStudy::new(DESCRIPTION, &format!("{HEADER}{rows}")).unwrap()
    }

    #[test]
    fn a_load_is_its_shares_of_a_unit_over_its_calls_at_the_pace_of_the_chip() {
        let study = study("");
        let chip = Platform::named("m5_ccss").unwrap().unwrap();
        let load = study.loads[0].workload((&chip, SwitchMechanism::StrongV2), 2.0, 7);
        // Of 50 us: 50 % and 3/4 of 20 %; 1/4 of 20 %; 10 %, all twice as slow. A wait is no work: 20 % as they are.
        let expected = [load.compute, load.call, load.after.interrupts, load.after.wait];
        assert_eq!(expected.map(Nanos::get), [65_000, 5_000, 10_000, 10_000]);
        assert_eq!(load.os_cores, "2-3".parse().unwrap());
        assert!(load.after.awaited && load.misses && !load.steady);
        let of = |idle| {
            let load = PrintedLoad { idle, ..study.loads[0].clone() };
            let load = load.workload((&chip, SwitchMechanism::StrongV2), 2.0, 7);
            [load.compute, load.call, load.after.wait].map(Nanos::get)
        };
        assert_eq!(of(IdleTime::Wire), [65_000, 5_000, 0]);
        // 50 % and 3/4 of 40 %; 1/4 of 40 %.
        assert_eq!(of(IdleTime::Kernel), [80_000, 10_000, 0]);
        assert_eq!(load.time, Nanos::from_millis(1_000));
        let one = Platform::named(ONE_CORE).unwrap().unwrap();
        let alone = study.loads[0].workload((&one, SwitchMechanism::StrongV2), 1.0, 7);
        assert!(alone.os_cores.is_empty());
    }

    #[test]
    fn the_chip_whose_shares_are_printed_does_a_unit_in_its_time_and_a_wire_bounds_it() {
        let mut study = study("m5_c,1,unmodified,10000\nm5_ss,1,unmodified,4000\n");
        let chip = Platform::named("m5_c").unwrap().unwrap();
        let units = |study: &ThroughputStudy| {
            let sheet = study.judge(&chip, &mut Lab::new(1, None, false)).unwrap();
            sheet.rows.iter().map(|row| row.simulated.unwrap()).collect::<Vec<_>>()
        };
        let free = units(&study);
        assert!((free[0] / 10_000.0 - 1.0).abs() < 0.03, "{free:?}");
        // 80 us of work, at half the pace or less.
        assert!(free[1] < 10_000.0 / 1.8 && free[1] > 10_000.0 / 3.5, "{free:?}");
        study.loads[0].wire = Some(5_000.0);
        let bounded = units(&study);
        assert!((bounded[0] - 5_000.0).abs() < 1e-9 && (bounded[1] - free[1]).abs() < 1e-9);
    }

    #[test]
    fn pairs_of_kernels_of_one_chip_are_in_order_by_how_far_apart_they_are_printed() {
        let rows = "m5_cc,1,unmodified,100\nm5_cc,1,bound,121\nm5_cc,1,strong-v1,122\n\
                    m5_cs,1,bound,500\nm5_c,1,unmodified,900\nm5_c,1,bound,1\nm5_cc,1,strong-v2,100\n";
        let study = study(rows);
        let simulated = [1.0, 3.0, 2.0, 9.0, 5.0, 7.0, 2.0];
        let row = |(row, simulated): (&ThroughputRow, f64)| ValidationRow {
            what: PrintedQuantity::Point { name: ThroughputStudy::name(row) },
            quantity: Some(THROUGHPUT),
            printed: row.value.value,
            simulated: Some(simulated),
            n: None,
            printed_n: None,
            role: role_among(&study.marked, |rows: &ThroughputRows| rows.has(row)),
            error: None,
        };
        let rows: Vec<ValidationRow> = study.printed.iter().zip(simulated).map(row).collect();
        // Apart: 100 and 121, 100 and 122, each of two rows of 100; V2 as fast as V1 is wrong. Near: 121 and 122, which is wrong.
        let [apart, near] = study.order(&rows);
        assert_eq!(apart, ClassConcordance { pairs: 4, agree: 3 });
        assert_eq!(near, ClassConcordance { pairs: 1, agree: 0 });
    }

    #[test]
    fn what_is_wrong_in_a_table_is_told_with_the_line_and_what_would_be_right() {
        let wrong = |rows: &str| {
            ThroughputStudy::new(DESCRIPTION, &format!("{HEADER}{rows}")).unwrap_err().to_string()
        };
        let kernel = wrong("m5_c,1,unmodified,1\nm5_c,1,v6,1\n");
        assert!(kernel.contains("line 3") && kernel.contains("`v6`"), "{kernel}");
        assert!(kernel.contains("strong-v1 to strong-v5"), "{kernel}");
        assert!(wrong("m5_c,1,v4,1").contains("`v4` is not a kernel"), "the library is none");
        assert!(wrong("m6,1,bound,1").contains("`m6` is not a platform"));
        assert!(wrong("m5_c,10,bound,1").contains("no load has a network of 10 Gbit/s"));
        assert!(wrong("m5_c,1,bound,many").contains("`many` is not a number"));
        let description = DESCRIPTION.replace("switched", "left");
        let error = ThroughputStudy::new(&description, HEADER).unwrap_err().to_string();
        assert!(error.contains("`left`") && error.contains("switched"), "{error}");
    }
}
