//! Verdicts on the facts. Pure: the same facts give the same findings.

use super::facts::Facts;
use crate::result::{Finding, Verdict};

use Verdict::{Fine, Note, Spoils};

fn finding(check: &str, found: impl Into<String>, (verdict, advice): (Verdict, &'static str)) -> Finding {
    let advice = (!advice.is_empty()).then(|| advice.to_owned());
    Finding { check: check.to_owned(), verdict, found: found.into(), advice }
}

const WELL: (Verdict, &str) = (Fine, "");
const UNKNOWN: &str = "unknown on this system";

/// Shares of stolen time, and of cores busy with other work, above which figures waver.
const STOLEN: f64 = 0.01;
const BUSY: f64 = 0.25;

/// Two threads that keep fewer cores busy share a core for a while.
const TOGETHER: f64 = 1.7;

/// Round trip, in nanoseconds, above which two cores hardly share a cache.
const FAR: f64 = 150.0;

/// Findings in the order of the table.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = processor(facts);
    findings.extend(memory(facts));
    findings.extend(disk(facts));
    findings.extend(build(facts));
    findings
}

fn processor(facts: &Facts) -> Vec<Finding> {
    let Facts { cores, quota, nodes, governor, smt, boost, hypervisor, load, stolen, woken, handover, .. } = facts;
    let few = (Note, "parallel executors have nothing to gain on one core");
    let throttled = (Spoils, "the control group throttles this process: raise its limit, or take fewer --threads");
    let slow = (Spoils, "set it to performance: cpupower frequency-set -g performance");
    let busy = (Spoils, "stop other programs, or wait");
    let shared = (Note, "two logical cores share one: compare --threads up to the physical cores first");
    let apart =
        (Note, "memory of another node is slower: --pin with no more --threads than one has, or numactl -N 0 -m 0");
    let boosted = (Note, "one busy core is faster than all: that flatters 1 thread against many");
    let late = (Note, "the system leaves both on one core: drive the engine from one of its workers, or --pin");
    let robbed = (Spoils, "other machines on this host take its time: repeat with --runs, or measure elsewhere");
    let switch = |on: bool| if on { "on" } else { "off" };
    let mut findings = vec![
        finding("cores", cores.to_string(), if *cores < 2 { few } else { WELL }),
        match quota {
            Some(quota) if *quota < *cores as f64 => finding("cpu quota", format!("{quota:.1} cores"), throttled),
            Some(quota) => finding("cpu quota", format!("{quota:.1} cores"), WELL),
            None => finding("cpu quota", "none", WELL),
        },
        match governor.as_deref() {
            None => finding("governor", UNKNOWN, (Note, "a virtual machine's host decides")),
            Some(governor) => finding("governor", governor, if governor == "performance" { WELL } else { slow }),
        },
    ];
    if let Some(nodes) = nodes {
        let of = |node: &usize| node.to_string();
        let found = match &nodes[..] {
            [node] => format!("all cores are on node {node}"),
            nodes => format!("cores on nodes {}", nodes.iter().map(of).collect::<Vec<_>>().join(", ")),
        };
        findings.push(finding("numa", found, if nodes.len() > 1 { apart } else { WELL }));
    }
    if let Some(smt) = smt {
        findings.push(finding("smt", switch(*smt), if *smt { shared } else { WELL }));
    }
    if let Some(boost) = boost {
        findings.push(finding("boost", switch(*boost), if *boost { boosted } else { WELL }));
    }
    if let Some(load) = load {
        let verdict = if *load > BUSY * *cores as f64 { busy } else { WELL };
        findings.push(finding("load", format!("{load:.2} over the last minute"), verdict));
    }
    if let Some(stolen) = stolen {
        let verdict = if *stolen > STOLEN { robbed } else { WELL };
        findings.push(finding("stolen time", format!("{:.2} % since boot", stolen * 100.0), verdict));
    }
    if let Some(woken) = woken {
        let verdict = if *woken < TOGETHER { late } else { WELL };
        findings.push(finding(
            "woken threads",
            format!("two threads keep {woken:.2} cores busy after one call"),
            verdict,
        ));
    }
    if let Some(handover) = handover {
        let far = (Note, "the cores seem to share no cache: threads pay for every value that they share");
        findings.push(finding(
            "handover",
            format!("{handover:.0} ns round trip between two cores"),
            if *handover > FAR { far } else { WELL },
        ));
    }
    let guest = (Note, "compare runs in pairs, interleaved: --executor twice, --runs 5");
    findings.push(finding(
        "hypervisor",
        if *hypervisor { "yes" } else { "no" },
        if *hypervisor { guest } else { WELL },
    ));
    findings
}

/// Write rate of new memory, in bytes per second, below which growing runs are slowed down.
const SLOW_MEMORY: f64 = 1e9;

fn memory(facts: &Facts) -> Vec<Finding> {
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    let small = (Note, "2^20 accounts take 2 to 6 GiB with the oracle: lower --accounts, or --oracle off");
    let swapping = (Spoils, "memory has been swapped out: free some, or switch swap off");
    let never = (Note, "large tables cost more address translations: set it to madvise or always");
    let costly = (Note, "new memory slows short runs down: bench run --touch GIB writes to it before the timer starts");
    let scarce = facts.available < 6 << 30;
    let found = format!("{} of {} available", gib(facts.available), gib(facts.memory));
    let mut findings = vec![
        finding("memory", found, if scarce { small } else { WELL }),
        finding("swap in use", gib(facts.swapped), if facts.swapped > 64 << 20 { swapping } else { WELL }),
    ];
    if let Some(thp) = &facts.thp {
        findings.push(finding("huge pages", thp.as_str(), if thp == "never" { never } else { WELL }));
    }
    if let Some((first, again)) = facts.written {
        let found = format!("{:.1} GB/s where it is new, {:.1} after that", first / 1e9, again / 1e9);
        findings.push(finding("memory writes", found, if first < SLOW_MEMORY { costly } else { WELL }));
    }
    findings
}

/// File systems in memory, and file systems over a network or another file system.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];
const INDIRECT: [&str; 7] = ["overlay", "nfs", "nfs4", "9p", "cifs", "fuse", "virtiofs"];

/// Durable writes faster than the first, in microseconds, do not reach a disk; slower than the second they delay blocks.
const TOO_FAST: f64 = 20.0;
const SLOW: f64 = 5_000.0;

fn disk(facts: &Facts) -> Vec<Finding> {
    let volatile = (Note, "nothing is durable in memory: figures contain no disk, say so beside them");
    let indirect = (Note, "put --store on a local disk to measure the store and not the file system below it");
    let in_memory = facts.disk.as_ref().is_some_and(|(_, kind)| IN_MEMORY.contains(&kind.as_str()));
    let place = match &facts.disk {
        None => finding("store folder", UNKNOWN, (Note, "")),
        Some((device, kind)) => {
            let below = INDIRECT.iter().any(|name| kind == name || kind.starts_with(&format!("{name}.")));
            let verdict = if in_memory {
                volatile
            } else if below {
                indirect
            } else {
                WELL
            };
            finding("store folder", format!("{device} ({kind})"), verdict)
        }
    };
    let cached = (Note, "too fast for a disk: its cache, or the host's, may lose what --durability block promises");
    let slow = (Note, "--durability block waits as long for every block: use large blocks");
    let unwritable = (Spoils, "a store cannot be written there");
    let sync = match facts.fsync {
        None => finding("durable write", format!("failed: {}", facts.unwritable), unwritable),
        Some((median, most)) => {
            let verdict = if in_memory {
                WELL
            } else if median < TOO_FAST {
                cached
            } else if median > SLOW {
                slow
            } else {
                WELL
            };
            finding("durable write", format!("{median:.0} µs in the median, {most:.0} µs at most, for 4 KiB"), verdict)
        }
    };
    let absent = (Note, "no figure says what share of the disk's reads a run makes");
    let reads = match facts.reads.as_ref().filter(|reads| !reads.per_s.is_empty()) {
        None => finding("random reads", format!("none past the page cache: {}", facts.unread), absent),
        Some(reads) => {
            let each = reads.per_s.iter().map(|(depth, rate)| format!("{:.1} at depth {depth}", rate / 1e3));
            let each = each.collect::<Vec<_>>().join(", ");
            finding("random reads", format!("thousand per second, 4 KiB past the page cache: {each}"), WELL)
        }
    };
    match (facts.measured, &facts.disk) {
        (true, _) => vec![place, sync, reads],
        (false, Some(_)) => vec![place],
        (false, None) => vec![],
    }
}

fn build(facts: &Facts) -> Vec<Finding> {
    let slow = (Spoils, "build with --release");
    let checking = (Spoils, "this build has debug assertions: build without them");
    let soft = (Note, "SHA-256 takes several times as long without its instructions: try --hasher blake3");
    let instrumented = (Spoils, "this build is instrumented: use the build that its profile guides");
    let profile = match facts.profile.as_str() {
        "release" | "release+pgo" => WELL,
        profile if profile.ends_with("+instrumented") => instrumented,
        _ => slow,
    };
    let mut findings = vec![
        finding("profile", facts.profile.as_str(), profile),
        finding(
            "debug assertions",
            if facts.assertions { "on" } else { "off" },
            if facts.assertions { checking } else { WELL },
        ),
    ];
    if let Some(sha) = facts.sha {
        findings.push(finding("sha instructions", if sha { "yes" } else { "no" }, if sha { WELL } else { soft }));
    }
    if let Some(lanes) = facts.lanes {
        let fewer = (Note, "with AVX-512 eight: compare figures of machines that have the same");
        findings.push(finding("keccak at once", lanes.to_string(), if lanes < 8 { fewer } else { WELL }));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::disk_reads::RandomReads;

    /// A machine without a fault.
    fn quiet() -> Facts {
        Facts {
            cores: 8,
            nodes: Some(vec![0]),
            governor: Some("performance".into()),
            smt: Some(false),
            boost: Some(false),
            load: Some(0.1),
            stolen: Some(0.0),
            woken: Some(1.9),
            handover: Some(90.0),
            memory: 64 << 30,
            available: 60 << 30,
            thp: Some("madvise".into()),
            written: Some((4e9, 12e9)),
            disk: Some(("/dev/nvme0n1".into(), "ext4".into())),
            fsync: Some((300.0, 900.0)),
            reads: Some(RandomReads { bytes: 4096, per_s: vec![(1, 9_400.0), (32, 38_000.0)] }),
            sha: Some(true),
            lanes: Some(8),
            profile: "release".into(),
            measured: true,
            ..Facts::default()
        }
    }

    #[test]
    fn a_quiet_machine_is_fine() {
        let findings = judge(&quiet());
        assert!(findings.iter().all(|found| found.verdict == Fine && found.advice.is_none()), "{findings:?}");
        assert!(findings.len() >= 14);
    }

    #[test]
    fn every_fault_is_found_and_nothing_else() {
        fn disk(kind: &str) -> Option<(String, String)> {
            Some(("device".into(), kind.into()))
        }
        type Case = (&'static str, Verdict, fn(&mut Facts));
        let cases: &[Case] = &[
            ("cores", Note, |facts| (facts.cores, facts.load) = (1, None)),
            ("cpu quota", Spoils, |facts| facts.quota = Some(1.5)),
            ("cpu quota", Fine, |facts| facts.quota = Some(8.0)),
            ("numa", Note, |facts| facts.nodes = Some(vec![0, 1])),
            ("governor", Spoils, |facts| facts.governor = Some("powersave".into())),
            ("governor", Note, |facts| facts.governor = None),
            ("smt", Note, |facts| facts.smt = Some(true)),
            ("boost", Note, |facts| facts.boost = Some(true)),
            ("load", Spoils, |facts| facts.load = Some(2.1)),
            ("stolen time", Spoils, |facts| facts.stolen = Some(0.02)),
            ("woken threads", Note, |facts| facts.woken = Some(1.1)),
            ("handover", Note, |facts| facts.handover = Some(380.0)),
            ("hypervisor", Note, |facts| facts.hypervisor = true),
            ("memory", Note, |facts| facts.available = 1 << 30),
            ("swap in use", Spoils, |facts| facts.swapped = 1 << 30),
            ("huge pages", Note, |facts| facts.thp = Some("never".into())),
            ("memory writes", Note, |facts| facts.written = Some((4e8, 12e9))),
            ("store folder", Note, |facts| facts.disk = disk("tmpfs")),
            ("store folder", Note, |facts| facts.disk = disk("fuse.sshfs")),
            ("store folder", Note, |facts| facts.disk = None),
            ("keccak at once", Note, |facts| facts.lanes = Some(4)),
            ("durable write", Note, |facts| facts.fsync = Some((3.0, 9.0))),
            ("durable write", Note, |facts| facts.fsync = Some((9_000.0, 9_000.0))),
            ("durable write", Spoils, |facts| facts.fsync = None),
            ("random reads", Note, |facts| facts.reads = None),
            ("profile", Spoils, |facts| facts.profile = "dev".into()),
            ("profile", Spoils, |facts| facts.profile = "release+instrumented".into()),
            ("debug assertions", Spoils, |facts| facts.assertions = true),
            ("sha instructions", Note, |facts| facts.sha = Some(false)),
        ];
        for (check, verdict, spoil) in cases {
            let mut facts = quiet();
            spoil(&mut facts);
            for found in judge(&facts) {
                let expected = if found.check == *check { *verdict } else { Fine };
                assert_eq!(found.verdict, expected, "{check}: {found:?}");
            }
        }
    }

    #[test]
    fn a_fast_durable_write_to_memory_is_fine() {
        let disk = Some(("tmpfs".to_owned(), "tmpfs".to_owned()));
        let facts = Facts { disk, fsync: Some((1.0, 2.0)), ..quiet() };
        let sync = judge(&facts).into_iter().find(|found| found.check == "durable write");
        assert_eq!(sync.map(|found| found.verdict), Some(Fine));
    }
}
