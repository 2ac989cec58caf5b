// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers and clients that talk over the loopback device, which counts their packets: progress that neither of them tells.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::running::{Count, Far, Running, silent};
use crate::Fallible;
use crate::packages::{Packages, Started, free_port, nginx_conf, printed};

/// Seconds that clients go on. They are ended before.
const LONG: &str = "1200";
/// The rows of a table in MariaDB.
const ROWS: &str = "10000";

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    Redis,
    Nginx,
    Memcached,
    /// With sysbench, which asks for one row after the other.
    MariaDb,
}

/// The surroundings of a server and its clients.
struct Place<'a> {
    packages: &'a Packages,
    folder: &'a Path,
    port: u16,
}

impl Server {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Nginx => "nginx",
            Self::Memcached => "memcached",
            Self::MariaDb => "mariadb",
        }
    }

    /// Starts it in a folder, with so many clients of so many connections each.
    pub(crate) fn begin(
        self,
        packages: &Packages,
        connections: u32,
        clients: usize,
        folder: TempDir,
    ) -> Fallible<Running> {
        let place = Place { packages, folder: folder.path(), port: free_port()? };
        let log = folder.path().join("log");
        let mut command = self.server(&place)?;
        let mut server = Started::of(silent(&mut command).stderr(File::create(&log)?))?;
        let ready = || TcpStream::connect((Ipv4Addr::LOCALHOST, place.port)).is_ok();
        server.answers(ready, &log)?;
        if self == Self::MariaDb {
            place.fill()?;
        }
        let mut processes = vec![server];
        for _ in 0..clients {
            processes.push(Started::of(silent(&mut self.client(&place, connections)))?);
        }
        Running::begin(processes, Far::Clients, Count::Packets, folder)
    }

    fn server(self, place: &Place) -> Fallible<Command> {
        let port = place.port.to_string();
        let mut command;
        match self {
            Self::Redis => {
                command = place.program("usr/bin/redis-server");
                let fixed = "--save  --appendonly no --daemonize no --loglevel warning --port";
                command.args(fixed.split(' ')).arg(port);
            }
            Self::Nginx => {
                let folder = place.folder;
                fs::write(folder.join("page"), "a page of a few words\n")?;
                let text = nginx_conf("master_process off;", "", folder, folder, place.port);
                fs::write(folder.join("nginx.conf"), text)?;
                command = place.program("usr/sbin/nginx");
                command.arg("-c").arg(folder.join("nginx.conf")).arg("-p").arg(folder);
            }
            Self::Memcached => {
                command = place.program("usr/bin/memcached");
                command.args(["-u", "root", "-l", "127.0.0.1", "-t", "1", "-p", &port]);
            }
            Self::MariaDb => {
                printed(&mut place.mariadb("usr/bin/mariadb-install-db", INSTALL))?;
                command = place.mariadb("usr/sbin/mariadbd", SERVE);
                command.arg("--port").arg(port).arg("--socket").arg(place.folder.join("socket"));
            }
        }
        Ok(command)
    }

    fn client(self, place: &Place, connections: u32) -> Command {
        let (port, count) = (place.port, connections.to_string());
        let mut command;
        match self {
            Self::Redis => {
                command = place.program("usr/bin/redis-benchmark");
                command.args(["-t", "get", "-l", "-q", "-c", &count, "-p"]).arg(port.to_string());
            }
            Self::Nginx => {
                command = place.program("usr/bin/wrk");
                command.args(["-t1", "-d", LONG, "-c", &count]);
                command.arg(format!("http://127.0.0.1:{port}/page"));
            }
            Self::Memcached => {
                command = place.program("usr/bin/memcaslap");
                command.args(["-T", "1", "-c", &count, "-t"]).arg(format!("{LONG}s"));
                command.arg("-s").arg(format!("127.0.0.1:{port}"));
            }
            Self::MariaDb => {
                command = place.sysbench();
                command.arg(format!("--time={LONG}")).arg(format!("--threads={count}")).arg("run");
            }
        }
        command
    }
}

/// The places of MariaDB's files and data: nothing of this machine's own is read.
const INSTALL: &[&str] = &["--force", "--skip-test-db", "--auth-root-authentication-method=normal"];
const SERVE: &[&str] = &["--bind-address=127.0.0.1", "--skip-log-bin", "--skip-name-resolve"];

impl Place<'_> {
    fn program(&self, path: &str) -> Command {
        self.packages.ready(Command::new(self.packages.path(path)), self.folder)
    }

    /// A program of MariaDB's server, on the data in the folder.
    fn mariadb(&self, path: &str, words: &[&str]) -> Command {
        let (files, data) = (self.packages.path("usr"), self.folder.join("data"));
        let mut command = self.program(path);
        command.arg("--no-defaults").arg(format!("--basedir={}", files.display()));
        command.arg(format!("--datadir={}", data.display()));
        command.args(["--user=root", "--innodb-log-file-size=8M"]).args(words);
        command
    }

    /// Makes the table that the client asks.
    fn fill(&self) -> Fallible<()> {
        let mut client = self.program("usr/bin/mariadb");
        client.args(["--no-defaults", "--user=root", "--execute", "CREATE DATABASE corehop"]);
        printed(client.arg("--socket").arg(self.folder.join("socket")))?;
        printed(self.sysbench().arg("prepare"))?;
        Ok(())
    }

    fn sysbench(&self) -> Command {
        let scripts = self.packages.path("usr/share/sysbench");
        let mut command = self.program("usr/bin/sysbench");
        command.env("LUA_PATH", scripts.join("?.lua")).arg(scripts.join("oltp_point_select.lua"));
        command.args(["--db-driver=mysql", "--mysql-host=127.0.0.1", "--mysql-user=root"]);
        command.arg("--mysql-db=corehop").arg(format!("--table-size={ROWS}"));
        command.arg(format!("--mysql-port={}", self.port));
        command
    }
}
