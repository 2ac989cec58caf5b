// SPDX-License-Identifier: MIT OR Apache-2.0
//! The servers, and the programs that load them.

use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Fallible;
use super::arms::Arm;
use super::packages::{Packages, Started, free_port, nginx_conf, printed};

/// Seconds of load before a trial is timed, and of the timed load.
const WARM_UP: u32 = 1;
pub(crate) const TIMED: u32 = 1;
/// Bytes of a value in redis and memcached: a call with one qualifies.
const VALUE: usize = 8192;
/// Requests to redis in a warm-up, and in a trial.
const REDIS_REQUESTS: u32 = 20_000;

/// A server and its load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// nginx, files as SPECweb mixes them, wrk.
    Nginx,
    /// Transactions as in TPC-B, on Berkeley DB.
    Tpcb,
    /// redis with an append-only file, redis-benchmark.
    Redis,
    /// memcached, memaslap.
    Memcached,
    /// iperf3, and the server sends.
    Send,
    /// iperf3, and the server receives.
    Receive,
}

/// The outcome of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Load {
    /// Requests or bytes per second.
    pub(crate) throughput: f64,
    /// Median and 99th percentile of the time of a request in microseconds, where the client tells them.
    pub(crate) latency_us: Option<[f64; 2]>,
}

/// The packages, and a folder for files of a trial.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) packages: Packages,
    pub(crate) scratch: PathBuf,
}

impl Place {
    fn ready(&self, command: Command) -> Command {
        self.packages.ready(command, &self.scratch)
    }
}

impl Server {
    pub(crate) const ALL: [Self; 6] =
        [Self::Nginx, Self::Tpcb, Self::Redis, Self::Memcached, Self::Send, Self::Receive];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Tpcb => "tpcb",
            Self::Redis => "redis",
            Self::Memcached => "memcached",
            Self::Send => "iperf-send",
            Self::Receive => "iperf-receive",
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Tpcb => "transactions/s",
            Self::Send | Self::Receive => "bytes/s",
            _ => "requests/s",
        }
    }

    /// Makes what all trials share.
    pub(crate) fn prepare(self, place: &Place) -> Fallible<()> {
        match self {
            Self::Nginx => files_of_web(&place.scratch),
            Self::Tpcb => compile_tpcb(place),
            Self::Memcached => {
                let mix = format!("key\n32 32 1\nvalue\n{VALUE} {VALUE} 1\ncmd\n0 0.1\n1 0.9\n");
                Ok(fs::write(place.scratch.join("mix"), mix)?)
            }
            _ => Ok(()),
        }
    }

    /// Starts it, loads it for the warm-up, then `timed` tells when the load begins and when it has ended.
    pub(crate) fn trial(
        self,
        arm: Arm,
        place: &Place,
        answer: &Path,
        coverage: bool,
        mut timed: impl FnMut() -> Fallible<()>,
    ) -> Fallible<Load> {
        let folder = place.scratch.join("trial");
        fs::remove_dir_all(&folder).ok();
        fs::create_dir(&folder)?;
        let program = |path: &Path| place.ready(arm.command(path.as_os_str(), answer, coverage));
        if self == Self::Tpcb {
            let mut command = program(&place.scratch.join("tpcb"));
            command.arg(&folder).args([WARM_UP.to_string(), TIMED.to_string()]);
            timed()?;
            let load = of_tpcb(&printed(&mut command)?)?;
            timed()?;
            return Ok(load);
        }
        let port = free_port()?;
        let _server = self.start(program, place, &folder, port)?;
        self.load(place, &folder, port, WARM_UP)?;
        timed()?;
        let load = self.load(place, &folder, port, TIMED)?;
        timed()?;
        Ok(load)
    }

    fn start(
        self,
        program: impl Fn(&Path) -> Command,
        place: &Place,
        folder: &Path,
        port: u16,
    ) -> Fallible<Started> {
        let port_text = port.to_string();
        let mut command = match self {
            Self::Nginx => {
                let configuration = folder.join("nginx.conf");
                let web = place.scratch.join("web");
                let text = nginx_conf("worker_processes 1;", "sendfile on;", folder, &web, port);
                fs::write(&configuration, text)?;
                let mut command = program(&place.packages.path("usr/sbin/nginx"));
                command.arg("-c").arg(configuration).arg("-p").arg(folder);
                command
            }
            Self::Redis => {
                let mut command = program(&place.packages.path("usr/bin/redis-server"));
                let fixed = "--port 0 --save  --appendonly yes --appendfsync everysec --daemonize no \
                             --auto-aof-rewrite-percentage 0 --loglevel warning";
                command.args(fixed.split(' ')).arg("--dir").arg(folder);
                command.arg("--unixsocket").arg(folder.join("socket"));
                command
            }
            Self::Memcached => {
                let mut command = program(&place.packages.path("usr/bin/memcached"));
                command.args(["-u", "root", "-l", "127.0.0.1", "-t", "1", "-m", "512", "-p"]);
                command.arg(&port_text);
                command
            }
            Self::Tpcb | Self::Send | Self::Receive => {
                let mut command = program(&place.packages.path("usr/bin/iperf3"));
                command.args(["-s", "-B", "127.0.0.1", "-p", &port_text]);
                command
            }
        };
        let log = fs::File::create(folder.join("log"))?;
        let mut started = Started::of(command.stdout(log.try_clone()?).stderr(log))?;
        let socket = folder.join("socket");
        let answers = || match self {
            Self::Redis => UnixStream::connect(&socket).is_ok(),
            _ => TcpStream::connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).is_ok(),
        };
        started.answers(answers, &folder.join("log"))?;
        Ok(started)
    }

    fn load(self, place: &Place, folder: &Path, port: u16, seconds: u32) -> Fallible<Load> {
        let client = |path: &str| place.ready(Command::new(place.packages.path(path)));
        let seconds = seconds.to_string();
        match self {
            Self::Nginx => {
                let mut command = client("usr/bin/wrk");
                command.args(["-t1", "-c8", "--latency", "-s", "mix.lua", "-d"]).arg(&seconds);
                of_wrk(&printed(command.arg(format!("http://127.0.0.1:{port}/")))?)
            }
            Self::Redis => {
                let mut command = client("usr/bin/redis-benchmark");
                command.arg("-s").arg(folder.join("socket"));
                command.args(["-t", "set,get", "-c", "8", "--csv", "-d"]).arg(VALUE.to_string());
                of_redis(&printed(command.arg("-n").arg(REDIS_REQUESTS.to_string()))?)
            }
            Self::Memcached => {
                let mut command = client("usr/bin/memcaslap");
                command.arg("-s").arg(format!("127.0.0.1:{port}"));
                command.args(["-F", "mix", "-T", "1", "-c", "8", "-S"]).arg(format!("{seconds}s"));
                of_memaslap(&printed(command.arg("-t").arg(format!("{seconds}s")))?)
            }
            Self::Tpcb | Self::Send | Self::Receive => {
                let mut command = client("usr/bin/iperf3");
                command.args(["-c", "127.0.0.1", "-l", "64K", "-J", "-p"]).arg(port.to_string());
                command.args((self == Self::Send).then_some("-R"));
                of_iperf(&printed(command.arg("-t").arg(&seconds))?)
            }
        }
    }
}

/// Nine files of each of four classes, as SPECweb99 has them: up to 0.9 KiB, 9 KiB, 90 KiB, 900 KiB; and the script that
/// asks for them in its proportions.
fn files_of_web(scratch: &Path) -> Fallible<()> {
    let folder = scratch.join("web");
    fs::create_dir(&folder)?;
    for (class, unit) in [102, 1024, 10_240, 102_400].into_iter().enumerate() {
        for file in 1..=9 {
            fs::write(folder.join(format!("{class}-{file}")), vec![b'x'; unit * file])?;
        }
    }
    let script = "\
math.randomseed(1)
function request()
    local draw, class = math.random(), 0
    if draw > 0.99 then class = 3 elseif draw > 0.85 then class = 2 elseif draw > 0.35 then class = 1 end
    return wrk.format('GET', '/' .. class .. '-' .. math.random(9))
end
done = function(summary, latency, requests)
    print(string.format('RESULT %f %f %f', summary.requests / summary.duration * 1e6,
        latency:percentile(50), latency:percentile(99)))
end
";
    Ok(fs::write(scratch.join("mix.lua"), script)?)
}

fn compile_tpcb(place: &Place) -> Fallible<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/servers/tpcb.c");
    let mut command = Command::new("cc");
    command.args([OsStr::new("-O2"), OsStr::new("-I")]).arg(place.packages.path("usr/include"));
    command.arg(source).arg("-o").arg(place.scratch.join("tpcb")).arg("-L");
    printed(command.arg(place.packages.libraries()).arg("-l:libdb-5.3.so")).map(|_| ())
}

/// Numbers after a word.
fn numbers<const N: usize>(text: &str, word: &str) -> Fallible<[f64; N]> {
    let found = text.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix(word)?;
        let all: Vec<f64> =
            rest.split_whitespace().map_while(|number| number.parse().ok()).collect();
        all.get(..N)?.try_into().ok()
    });
    found.ok_or_else(|| format!("no `{word}` in: {text}").into())
}

fn of_tpcb(text: &str) -> Fallible<Load> {
    let [throughput, median, tail] = numbers(text, "")?;
    Ok(Load { throughput, latency_us: Some([median, tail]) })
}

fn of_wrk(text: &str) -> Fallible<Load> {
    let [throughput, median, tail] = numbers(text, "RESULT")?;
    Ok(Load { throughput, latency_us: Some([median, tail]) })
}

/// `"test","rps","avg","min","p50","p95","p99","max"` in milliseconds, a line for each kind of request: each makes half of
/// the requests, and the slower kind gives the percentiles.
fn of_redis(text: &str) -> Fallible<Load> {
    let mut kinds = Vec::new();
    for line in
        text.lines().filter(|line| line.starts_with("\"SET\"") || line.starts_with("\"GET\""))
    {
        let fields = line.split(',').map(|field| field.trim_matches('"').parse::<f64>());
        let fields: Vec<f64> = fields.skip(1).collect::<Result<_, _>>()?;
        kinds.push((fields[0], fields[3], fields[5]));
    }
    let [(set, set_median, set_tail), (get, get_median, get_tail)] = kinds[..] else {
        return Err(format!("redis-benchmark printed: {text}").into());
    };
    let latency = [set_median.max(get_median) * 1e3, set_tail.max(get_tail) * 1e3];
    Ok(Load { throughput: 2.0 / (1.0 / set + 1.0 / get), latency_us: Some(latency) })
}

/// A histogram by powers of two: `4: 6 448` are 6 of up to 2^4 µs and 448 of up to 2^5. A percentile is the end of its bin.
fn of_memaslap(text: &str) -> Fallible<Load> {
    let throughput = text.rsplit_once("TPS: ").and_then(|(_, rest)| rest.split_whitespace().next());
    let throughput = throughput.and_then(|number| number.parse().ok());
    let throughput = throughput.ok_or_else(|| format!("memaslap printed: {text}"))?;
    let total = text.rsplit_once("Total Statistics (").map_or("", |(_, rest)| rest);
    let bins = total.split_once("Log2 Dist:").map_or("", |(_, rest)| rest);
    let mut counts = Vec::new();
    for line in bins.lines().skip(1).take_while(|line| line.contains(':')) {
        let Some((first, row)) = line.split_once(':') else { break };
        let Ok(first) = first.trim().parse::<i32>() else { break };
        for (at, count) in row.split_whitespace().enumerate() {
            counts.push((2_f64.powi(first + at as i32), count.parse::<f64>()?));
        }
    }
    let all: f64 = counts.iter().map(|&(_, count)| count).sum();
    let end = |share: f64| {
        let mut sum = 0.0;
        counts.iter().find(|&&(_, count)| (sum += count, sum >= share * all).1).map(|&(end, _)| end)
    };
    let latency_us = end(0.5).zip(end(0.99)).map(|(median, tail)| [median, tail]);
    Ok(Load { throughput, latency_us })
}

fn of_iperf(text: &str) -> Fallible<Load> {
    let answer: Value = serde_json::from_str(text)?;
    let bits = answer["end"]["sum_received"]["bits_per_second"].as_f64();
    let bits = bits.ok_or_else(|| format!("iperf3 printed: {text}"))?;
    Ok(Load { throughput: bits / 8.0, latency_us: None })
}
