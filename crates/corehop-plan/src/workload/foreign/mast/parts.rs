// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a MAST model that transactions refer to: processors with their schedulers, scheduling servers, and
//! operations.

use std::collections::{BTreeMap, BTreeSet};

use super::fields::{self, MastFields, plain};
use super::text::MastEntry;
use super::time::MastTime;
use crate::workload::foreign::TaskFileError;

/// The remedy for times that a processor, a scheduler or an interrupt needs.
const OVERHEAD: &str = "set the overhead to 0 here: `corehop check --overheads` charges overheads";

const NO_LOCKS: &str = "the reader has no locks: state `locks` and `locking` in JSON";

/// The scheduling parameters of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MastUrgency {
    /// The server has a fixed priority. Interrupts are more urgent than all other servers, and a larger priority is
    /// more urgent.
    Fixed { is_interrupt: bool, priority: u32 },
    /// The server runs under EDF with this relative deadline.
    Deadline(MastTime),
}

/// A thread or an interrupt handler of the model.
#[derive(Debug, Clone, Copy)]
pub(super) struct MastServer {
    /// The number of the server's processor.
    pub(super) cpu: usize,
    pub(super) urgency: MastUrgency,
}

/// The execution times of an operation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MastOperation {
    pub(super) wcet: MastTime,
    pub(super) bcet: MastTime,
}

/// The parts of a model by name, in small letters.
#[derive(Debug, Default)]
pub(super) struct MastParts {
    /// The names of the processors, in the order of their CPU numbers.
    pub(super) processors: Vec<String>,
    /// The schedulers: the number of the processor, and whether the policy is EDF.
    schedulers: BTreeMap<String, (usize, bool)>,
    servers: BTreeMap<String, MastServer>,
    operations: BTreeMap<String, MastOperation>,
    /// The names of servers and operations that another part uses, as `operation x`.
    used: BTreeSet<String>,
    /// The names of entries that the reader leaves out.
    pub(super) unread: BTreeSet<String>,
}

/// Adds a part under its name, which no earlier part may have.
fn insert<T>(
    parts: &mut BTreeMap<String, T>,
    place: &str,
    name: &str,
    part: T,
) -> Result<(), TaskFileError> {
    if parts.insert(plain(name), part).is_none() {
        return Ok(());
    }
    let what = format!("`Name` is {name}: expected a name that no such part before has");
    Err(TaskFileError::row(place, what))
}

impl MastParts {
    /// Reads a processor. A processor of the form of MAST 1.2 has its scheduler's parameters, too.
    pub(super) fn processor(&mut self, entry: MastEntry) -> Result<(), TaskFileError> {
        let mut fields = MastFields::of(entry)?;
        let known = ["Regular_Processor", "Fixed_Priority_Processor"];
        let kind = fields.kind(&known, "a task set has no networks, only processors are read")?;
        let name = fields.needed_word("Name")?;
        if self.processors.contains(&plain(&name)) {
            let what = format!("`Name` is {name}: expected a name that no processor before has");
            return Err(TaskFileError::row(&fields.place, what));
        }
        fields.only("Speed_Factor", "1", "a task set has no speeds: scale the execution times")?;
        for part in ["ISR_Switch", "Context_Switch"] {
            no_overhead(&mut fields, part)?;
        }
        let timer = "the reader has no timers: remove the timer if its overhead is 0, and charge other overheads by \
                     `corehop check --overheads`";
        fields.refuse("System_Timer", timer)?;
        if kind == "fixed_priority_processor" {
            let scheduler = (self.processors.len(), false);
            insert(&mut self.schedulers, &fields.place, &name, scheduler)?;
        }
        self.processors.push(plain(&name));
        let unread =
            ["Max_Priority", "Min_Priority", "Max_Interrupt_Priority", "Min_Interrupt_Priority"];
        fields.finish(&unread, &mut self.unread)
    }

    /// Reads the scheduler of a processor.
    pub(super) fn scheduler(&mut self, entry: MastEntry) -> Result<(), TaskFileError> {
        let mut fields = MastFields::of(entry)?;
        let why = "a task set has no scheduler below another scheduler";
        fields.kind(&["Primary_Scheduler"], why)?;
        let (name, host) = (fields.needed_word("Name")?, fields.needed_word("Host")?);
        let wrong = |what: &str| {
            Err(TaskFileError::row(&fields.place, format!("`Host` is {host}: {what}")))
        };
        let Some(cpu) = self.processors.iter().position(|it| *it == plain(&host)) else {
            return wrong("there is no Processing_Resource of this name");
        };
        if self.schedulers.values().any(|(other, _)| *other == cpu) {
            return wrong("this processor has a scheduler already");
        }
        let mut policy = MastFields::of(fields.need("Policy")?)?;
        let why = "no test here is for other policies";
        let kind = policy.kind(&["Fixed_Priority", "EDF"], why)?;
        no_overhead(&mut policy, "Context_Switch")?;
        policy.finish(&["Max_Priority", "Min_Priority"], &mut self.unread)?;
        insert(&mut self.schedulers, &fields.place, &name, (cpu, kind == "edf"))?;
        fields.finish(&[], &mut self.unread)
    }

    /// Reads a scheduling server: the thread or interrupt handler that executes activities.
    pub(super) fn server(&mut self, entry: MastEntry) -> Result<(), TaskFileError> {
        let mut fields = MastFields::of(entry)?;
        let why = "a task set has no other servers";
        fields.kind(&["Regular", "Fixed_Priority"], why)?;
        let name = fields.needed_word("Name")?;
        let mut policy = MastFields::of(fields.need("Server_Sched_Parameters")?)?;
        let urgency = urgency(&mut policy)?;
        policy.finish(&["Preassigned"], &mut self.unread)?;
        fields.refuse("Synchronization_Parameters", NO_LOCKS)?;
        let (cpu, is_edf) = self.scheduler_of(&mut fields)?;
        if is_edf != matches!(urgency, MastUrgency::Deadline(_)) {
            let policy = if is_edf { "EDF" } else { "fixed priorities" };
            let what =
                format!("the policy of the server is not the policy of its scheduler, {policy}");
            return Err(TaskFileError::row(&fields.place, what));
        }
        insert(&mut self.servers, &fields.place, &name, MastServer { cpu, urgency })?;
        fields.finish(&[], &mut self.unread)
    }

    /// Returns the processor of a server, and whether the processor runs under EDF.
    fn scheduler_of(&self, fields: &mut MastFields) -> Result<(usize, bool), TaskFileError> {
        let by_scheduler = fields.word("Scheduler")?;
        let by_processor = fields.word("Server_Processing_Resource")?;
        let (name, found) = match (by_scheduler, by_processor) {
            (Some(name), None) => {
                let found = self.schedulers.get(&plain(&name)).copied();
                (format!("`Scheduler` is {name}"), found)
            }
            (None, Some(name)) => {
                let cpu = self.processors.iter().position(|it| *it == plain(&name));
                let found = self.schedulers.values().find(|(of, _)| Some(*of) == cpu).copied();
                (format!("`Server_Processing_Resource` is {name}"), found)
            }
            _ => {
                let what = "expected either `Scheduler` or `Server_Processing_Resource`";
                return Err(TaskFileError::row(&fields.place, what));
            }
        };
        let what = format!("{name}: there is no scheduler for this name");
        found.ok_or_else(|| TaskFileError::row(&fields.place, what))
    }

    /// Reads an operation. The operations of a list must stand above, so that no operation contains itself.
    pub(super) fn operation(&mut self, entry: MastEntry) -> Result<(), TaskFileError> {
        let mut fields = MastFields::of(entry)?;
        let why = "only operations on processors are read";
        let kind = fields.kind(&["Simple", "Composite", "Enclosing"], why)?;
        let name = fields.needed_word("Name")?;
        fields.refuse(
            "New_Sched_Parameters",
            "a task of a set has the same priority during its whole job",
        )?;
        for list in
            ["Shared_Resources_List", "Shared_Resources_To_Lock", "Shared_Resources_To_Unlock"]
        {
            fields.refuse(list, NO_LOCKS)?;
        }
        let parts = match kind.as_str() {
            "simple" => MastOperation::default(),
            _ => self.sum(&fields.place.clone(), fields.need("Composite_Operation_List")?)?,
        };
        let operation = match kind.as_str() {
            "composite" => parts,
            // The times of an enclosing operation include its parts.
            _ => MastOperation {
                wcet: fields.needed_time("Worst_Case_Execution_Time")?,
                bcet: fields.time("Best_Case_Execution_Time")?.unwrap_or_default(),
            },
        };
        insert(&mut self.operations, &fields.place, &name, operation)?;
        fields.finish(&["Avg_Case_Execution_Time"], &mut self.unread)
    }

    /// Returns the sums of the times of listed operations.
    fn sum(&mut self, place: &str, list: MastEntry) -> Result<MastOperation, TaskFileError> {
        let mut sum = MastOperation::default();
        for name in fields::names(list)? {
            let part = self.operation_of(place, &name)?;
            let too_large =
                || TaskFileError::row(place, "the sum of the execution times is too large");
            sum.wcet = sum.wcet.plus(part.wcet).ok_or_else(too_large)?;
            sum.bcet = sum.bcet.plus(part.bcet).ok_or_else(too_large)?;
        }
        Ok(sum)
    }

    /// Returns the operation of this name.
    pub(super) fn operation_of(
        &mut self,
        place: &str,
        name: &str,
    ) -> Result<MastOperation, TaskFileError> {
        let found = self.operations.get(&plain(name)).copied();
        self.used.insert(format!("operation {}", plain(name)));
        let what = format!("there is no Operation `{name}` above");
        found.ok_or_else(|| TaskFileError::row(place, what))
    }

    /// Returns the scheduling server of this name.
    pub(super) fn server_of(
        &mut self,
        place: &str,
        name: &str,
    ) -> Result<MastServer, TaskFileError> {
        let found = self.servers.get(&plain(name)).copied();
        self.used.insert(format!("server {}", plain(name)));
        let what = format!("there is no Scheduling_Server `{name}`");
        found.ok_or_else(|| TaskFileError::row(place, what))
    }

    /// Returns the servers and operations that no other part uses, which load no processor.
    pub(super) fn idle(&self) -> Vec<String> {
        let servers = self.servers.keys().map(|name| format!("server {name}"));
        let operations = self.operations.keys().map(|name| format!("operation {name}"));
        servers.chain(operations).filter(|part| !self.used.contains(part)).collect()
    }
}

/// Refuses the worst, average and best overhead of this name unless they are 0.
fn no_overhead(fields: &mut MastFields, name: &str) -> Result<(), TaskFileError> {
    ["Worst", "Avg", "Best"]
        .iter()
        .try_for_each(|which| fields.only(&format!("{which}_{name}"), "0", OVERHEAD))
}

/// Reads the scheduling parameters of a server.
fn urgency(policy: &mut MastFields) -> Result<MastUrgency, TaskFileError> {
    let known = ["Fixed_Priority_Policy", "Interrupt_FP_Policy", "EDF_Policy"];
    let kind = policy.kind(&known, "no test here is for other policies")?;
    if kind == "edf_policy" {
        return Ok(MastUrgency::Deadline(policy.needed_time("Deadline")?));
    }
    let word = policy.needed_word("The_Priority")?;
    let what = format!("`The_Priority` is {word}: expected a whole number from 0");
    let priority = word.parse().map_err(|_| TaskFileError::row(&policy.place, what))?;
    Ok(MastUrgency::Fixed { is_interrupt: kind == "interrupt_fp_policy", priority })
}
