// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that people run: commands that end within a second, and servers. What a host lacks is left out, and said.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use corehop_plan::experiment::DrawStream;

use crate::Fallible;
use crate::packages::{Packages, Started, free_port, nginx_conf, printed};

/// The bytes of the texts that are compressed.
const LONG: usize = 24 << 20;
const SHORT: usize = 4 << 20;

/// A command with its name in the table: the name, the program that it needs, and its words; `FOLDER` is the folder.
const COMMANDS: [(&str, &str, &[&str]); 12] = [
    (
        "zstd",
        "zstd",
        &["zstd", "-q", "-3", "--single-thread", "-f", "-o", "/dev/null", "FOLDER/long"],
    ),
    ("gzip", "gzip", &["sh", "-c", "exec gzip -6 -c FOLDER/short > /dev/null"]),
    ("bzip2", "bzip2", &["sh", "-c", "exec bzip2 -c FOLDER/short > /dev/null"]),
    ("xz", "xz", &["sh", "-c", "exec xz -1 -c FOLDER/short > /dev/null"]),
    (
        "openssl",
        "openssl",
        &["openssl", "dgst", "-sha512", "FOLDER/long", "FOLDER/long", "FOLDER/long"],
    ),
    ("gcc", "gcc", &["gcc", "-O2", "-c", "FOLDER/functions.c", "-o", "FOLDER/functions.o"]),
    ("sqlite", "sqlite3", &["sqlite3", ":memory:", SQL]),
    ("python", "/usr/bin/python3", &["/usr/bin/python3", "-c", PYTHON]),
    ("perl", "perl", &["perl", "-e", PERL]),
    ("node", "node", &["node", "-e", NODE]),
    ("go", "go", &["FOLDER/sorting"]),
    ("java", "javac", &["java", "-XX:+UseSerialGC", "-cp", "FOLDER", "Sorting"]),
];
const SQL: &str = "CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER); \
    INSERT INTO t SELECT value, value * 7919 % 100003 FROM generate_series(1, 100000); \
    CREATE INDEX i ON t(b); SELECT sum(x.a) FROM t x JOIN t y ON x.b = y.a;";
const PYTHON: &str =
    "d = {}\nfor i in range(600000):\n    k = i * 7919 % 20011\n    d[k] = d.get(k, 0) + i";
const PERL: &str = "my %d; for my $i (0..600000) { $d{$i * 7919 % 20011} += $i }";
const NODE: &str = "const d = new Map(); for (let i = 0; i < 4e6; i++) { const k = i * 7919 % 20011; d.set(k, (d.get(k) || 0) + i) }";

/// The servers by their names.
pub(crate) const SERVERS: [&str; 3] = ["redis", "memcached", "nginx"];
/// The calls that a server finishes for each request.
pub(crate) const CALLS: &str = "syscalls:write,writev,sendto,sendmsg";

/// The commands that this host has, by name. Makes what they read in the folder.
pub(crate) fn commands(folder: &Path) -> Fallible<Vec<(&'static str, Vec<String>)>> {
    fs::write(folder.join("long"), text(LONG))?;
    fs::write(folder.join("short"), text(SHORT))?;
    fs::write(folder.join("functions.c"), functions())?;
    let mut found = Vec::new();
    for (name, needs, words) in COMMANDS {
        if let Err(why) = made(name, needs, folder) {
            println!("left out: {name}: {why}");
            continue;
        }
        let here = folder.display().to_string();
        found.push((name, words.iter().map(|it| it.replace("FOLDER", &here)).collect()));
    }
    Ok(found)
}

/// Whether a program is there; compiles those that are ours.
fn made(name: &str, needs: &str, folder: &Path) -> Fallible<()> {
    printed(Command::new("sh").args(["-c", &format!("command -v {needs}")]))?;
    let source = |name| Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/programs").join(name);
    match name {
        "go" => {
            let mut go = Command::new("go");
            go.env("GOCACHE", folder.join("cache")).arg("build").arg("-o");
            printed(go.arg(folder.join("sorting")).arg(source("sorting.go"))).map(drop)
        }
        "java" => {
            let mut compiler = Command::new("javac");
            printed(compiler.arg("-d").arg(folder).arg(source("Sorting.java"))).map(drop)
        }
        _ => Ok(()),
    }
}

/// A server under load, of the packages that were unpacked.
pub(crate) fn server(name: &str, packages: &Packages, folder: &Path) -> Fallible<Vec<Started>> {
    let port = free_port()?;
    let program = |path: &str| packages.ready(Command::new(packages.path(path)), folder);
    let port_text = port.to_string();
    let (mut command, mut client);
    match name {
        "redis" => {
            command = program("usr/bin/redis-server");
            command
                .args("--save  --appendonly no --daemonize no --port".split(' '))
                .arg(&port_text);
            client = program("usr/bin/redis-benchmark");
            client.args("-t get -r 100000 -l -q -c 8 -p".split(' ')).arg(&port_text);
        }
        "memcached" => {
            command = program("usr/bin/memcached");
            command.args("-u root -l 127.0.0.1 -t 1 -p".split(' ')).arg(&port_text);
            client = program("usr/bin/memcaslap");
            client.args("-T 1 -c 8 -t 600s -s".split(' ')).arg(format!("127.0.0.1:{port}"));
        }
        _ => {
            fs::write(folder.join("page"), "a page of a few words\n")?;
            let text = nginx_conf("master_process off;", "", folder, folder, port);
            fs::write(folder.join("nginx.conf"), text)?;
            command = program("usr/sbin/nginx");
            command.arg("-c").arg(folder.join("nginx.conf")).arg("-p").arg(folder);
            client = program("usr/bin/wrk");
            client.args("-t1 -c8 -d600".split(' ')).arg(format!("http://127.0.0.1:{port}/page"));
        }
    }
    let mut server = Started::of(silent(&mut command))?;
    let ready = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
    server.answers(ready, &PathBuf::from("/dev/null"))?;
    Ok(vec![server, Started::of(silent(&mut client))?])
}

/// A command that prints into nothing.
pub(crate) fn silent(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// Words, of which few are frequent, as in a language.
fn text(bytes: usize) -> Vec<u8> {
    let mut draw = DrawStream::new(1, 5);
    let word = |draw: &mut DrawStream| {
        let letters = 2 + draw.below(8);
        (0..letters).map(|_| b'a' + draw.below(26) as u8).chain([b' ']).collect::<Vec<u8>>()
    };
    let words: Vec<Vec<u8>> = (0..4096).map(|_| word(&mut draw)).collect();
    let mut text = Vec::with_capacity(bytes + 16);
    while text.len() < bytes {
        let rank = (1_u64 << draw.below(13)) - 1;
        text.extend(&words[draw.below(rank + 1) as usize]);
    }
    text
}

/// Functions in C with loops that are worth optimising.
fn functions() -> String {
    let one = |at: usize| {
        format!(
            "int f{at}(int *a, int n) {{ int s = {at}; for (int i = 0; i < n; i++) {{ a[i] += s * {at}; s ^= a[i] >> {}; \
             if (s % {} == 0) a[s & 7]--; }} return s; }}\n",
            at % 7 + 1,
            at % 11 + 2
        )
    };
    (0..120).map(one).collect()
}
