// SPDX-License-Identifier: MIT OR Apache-2.0
//! The surroundings of a process: its service, its cgroup, and its threads.

use serde::{Deserialize, Serialize};

/// The surroundings of a process, as far as the host reports them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Residence {
    /// The id of the process that resides in the cgroup.
    pub pid: u32,
    /// The name of the process that resides in the cgroup.
    pub name: String,
    /// The service of systemd that the process belongs to, or `None` outside of services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The path of the cgroup in its hierarchy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The folder of the cgroup's file `cpuset.cpus`, or `None` for the root cgroup, or if the file does not
    /// exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpuset: Option<String>,
    /// The ids of the threads that the process has.
    #[serde(skip)]
    pub threads: Vec<u32>,
}
