// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that are placed: servers with their clients, and programs whose own threads share data.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use super::running::{Count, Far, Running, silent};
use super::servers::Server;
use crate::Fallible;
use crate::packages::{Packages, Started, printed};

/// A program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// A server, and a client with so many connections.
    Server(Server, u32),
    /// Two groups of ten senders and ten receivers, processes that write into sockets.
    Hackbench,
    /// Fibonacci numbers by fork and join on TBB.
    Tbb,
    /// Two threads that hand numbers over through a queue of Java's.
    Java,
    /// Two processes that hand a byte over through pipes.
    Pipes,
    /// Two goroutines, each locked to a thread, that hand numbers over through channels without a buffer.
    Go,
}

impl Program {
    pub(crate) const ALL: [Self; 12] = [
        Self::Server(Server::Redis, 1),
        Self::Server(Server::Nginx, 1),
        Self::Server(Server::Memcached, 1),
        Self::Server(Server::MariaDb, 1),
        Self::Hackbench,
        Self::Tbb,
        Self::Java,
        Self::Server(Server::Redis, 20),
        Self::Server(Server::Nginx, 16),
        Self::Server(Server::Memcached, 8),
        Self::Pipes,
        Self::Go,
    ];
    /// Those of a run of 25 minutes: most are servers.
    pub(crate) const PLACED: [Self; 3] =
        [Self::Server(Server::Redis, 1), Self::Server(Server::Memcached, 1), Self::Hackbench];
    /// Those of a short run.
    pub(crate) const SHORT: [Self; 2] =
        [Self::Server(Server::Redis, 1), Self::Server(Server::Memcached, 1)];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Server(server, 1) => server.name().to_owned(),
            Self::Server(server, connections) => format!("{}-{connections}", server.name()),
            Self::Hackbench => "hackbench".to_owned(),
            Self::Tbb => "tbb".to_owned(),
            Self::Java => "java".to_owned(),
            Self::Pipes => "pipes".to_owned(),
            Self::Go => "go-channels".to_owned(),
        }
    }

    /// Whether the cost of watching is measured: servers that do little beside their system calls.
    pub(crate) fn is_watched(self) -> bool {
        matches!(self, Self::Server(server, 1) if server != Server::MariaDb)
    }

    /// Whether the loss by watching is measured.
    pub(crate) fn loses(self) -> bool {
        matches!(self, Self::Server(Server::Redis | Server::Memcached, 1))
    }

    /// Whether there are static placements to compare with. More connections are only left to the placer.
    pub(crate) fn has_sides(self) -> bool {
        !matches!(self, Self::Server(_, 2..))
    }

    /// Starts it, a server with so many clients.
    pub(crate) fn begin(self, packages: &Packages, clients: usize) -> Fallible<Running> {
        let folder = tempfile::Builder::new().prefix("corehop-place-").tempdir()?;
        let at = folder.path();
        let (count, file) = (Count::File(at.join("count")), at.join("count"));
        let (command, far, count) = match self {
            Self::Server(server, connections) => {
                return server.begin(packages, connections, clients, folder);
            }
            Self::Hackbench => (hackbench(packages, at), Far::LastHalf, Count::Writes),
            Self::Tbb => (fibonacci(packages, at)?, Far::Workers, count),
            Self::Java => (handover(packages, at)?, Far::Named("consumer"), count),
            Self::Pipes => (compiled(at, "pipes", &[])?, Far::LastHalf, count),
            // The runtime has goroutines run on all threads: there is one side.
            Self::Go => (channels(at)?, Far::Clients, count),
        };
        let mut command = command;
        if let Count::File(_) = count {
            command.arg(file);
        }
        let log = std::fs::File::create(at.join("log"))?;
        let process = Started::of(silent(&mut command).stderr(log))?;
        Running::begin(vec![process], far, count, folder)
    }
}

fn hackbench(packages: &Packages, folder: &Path) -> Command {
    let mut command = packages.ready(Command::new(packages.path("usr/bin/hackbench")), folder);
    // More messages than there is time for.
    command.args(["-g", "2", "-f", "10", "-l", "1000000000"]);
    command
}

/// The program `fibonacci.cpp`, compiled.
fn fibonacci(packages: &Packages, folder: &Path) -> Fallible<Command> {
    let (include, libraries) = (packages.path("usr/include"), packages.libraries());
    let words = [
        OsStr::new("-I"),
        include.as_ref(),
        OsStr::new("-L"),
        libraries.as_ref(),
        OsStr::new("-ltbb"),
    ];
    Ok(packages.ready(compiled(folder, "fibonacci", &words)?, folder))
}

/// A program of this folder in C++, compiled with more words.
fn compiled(folder: &Path, name: &str, words: &[&OsStr]) -> Fallible<Command> {
    let program = folder.join(name);
    let mut compiler = Command::new("c++");
    compiler.args(["-O2", "-std=c++17"]).arg(source(&format!("{name}.cpp")));
    printed(compiler.arg("-o").arg(&program).args(words))?;
    Ok(Command::new(program))
}

/// The program `channels.go`, compiled.
fn channels(folder: &Path) -> Fallible<Command> {
    let program = folder.join("channels");
    let installed = Path::new("/usr/local/go/bin/go");
    let go = if installed.exists() { installed.as_os_str() } else { OsStr::new("go") };
    let mut compiler = Command::new(go);
    compiler.env("GOCACHE", folder.join("cache")).env("GOFLAGS", "-mod=mod");
    printed(compiler.arg("build").arg("-o").arg(&program).arg(source("channels.go")))?;
    Ok(Command::new(program))
}

/// The class `Handover.java`, compiled by Eclipse's compiler, which the runtime alone runs.
fn handover(packages: &Packages, folder: &Path) -> Fallible<Command> {
    let unpacked = packages.path("usr/lib/jvm/default-java/bin/java");
    let java =
        || Command::new(if unpacked.exists() { unpacked.as_os_str() } else { "java".as_ref() });
    let mut compiler = java();
    compiler.arg("-cp").arg(packages.path("usr/share/java/eclipse-jdt-core.jar"));
    compiler.args(["org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-proc:none", "-d"]);
    printed(compiler.arg(folder).arg(source("Handover.java")))?;
    let mut command = packages.ready(java(), folder);
    command.arg("-cp").arg(folder).arg("Handover");
    Ok(command)
}

fn source(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/place").join(name)
}
