//! Properties of every page and picture, for any results.

use super::{fixture, html, plots, summary, svg::Origin, write};
use crate::result::{BenchResult, Quantiles, Stages};
use random::Random;

/// Panics unless every tag in `text` is closed in order, attributes are quoted, and entities are known.
fn assert_well_formed(text: &str) {
    const VOID: [&str; 3] = ["!DOCTYPE", "br", "hr"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        assert_text(&rest[..at], open.last());
        let inner = &rest[at + 1..];
        let mut quoted = false;
        let end = inner.find(|c| {
            quoted ^= c == '"';
            c == '>' && !quoted
        });
        let end = end.unwrap_or_else(|| panic!("an open tag: {}", &inner[..inner.len().min(80)]));
        let (tag, name) = (&inner[..end], inner[..end].split([' ', '/']).next().unwrap());
        assert!(!tag.contains('<'), "a tag in a tag: {tag}");
        rest = &inner[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
        for attribute in tag.split('"').skip(1).step_by(2) {
            assert_text(attribute, None);
        }
    }
    assert_text(rest, None);
    assert!(open.is_empty(), "never closed: {open:?}");
}

fn assert_text(text: &str, parent: Option<&&str>) {
    if parent == Some(&"style") {
        return;
    }
    for entity in text.split('&').skip(1) {
        assert!(["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|known| entity.starts_with(known)), "&{entity}");
    }
    assert!(!text.contains('>'), "a stray > in {text:?}");
    assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "{text:?}");
}

/// Every picture and page of `results`.
fn everything(results: &[BenchResult]) -> [String; 5] {
    let rows = summary::rows(results);
    let pictures = [plots::tps(&rows), plots::stages(&rows), plots::latency(&rows)];
    let [tps, stages, latency] = pictures.map(|picture| picture.standalone(&Origin::of(results)));
    [html::page(results), tps, stages, latency, super::table::table(results)]
}

fn assert_sound(results: &[BenchResult]) {
    let all = everything(results);
    for (i, text) in all.iter().enumerate() {
        for odd in ["NaN", "inf", "-0\"", "e+"] {
            // The word may be in a name, but never in a figure.
            let found =
                text.match_indices(odd).find(|(at, _)| !text[..*at].ends_with(|c: char| c.is_alphabetic() || c == '-'));
            assert!(
                found.is_none_or(
                    |(at, _)| text[at..].starts_with("inf") && text[at + 3..].starts_with(char::is_alphabetic)
                ),
                "{i}: {odd}: {text}"
            );
        }
        if i < 4 {
            assert_well_formed(text);
        }
    }
}

#[test]
fn the_checker_finds_faults() {
    for fault in
        ["<a>", "<a></b>", "<a></a></a>", "<a x=\"<\"></a", "a & b", "<b x=\"&nbsp;\"/>", "a > b", "<a\u{1}/>\u{1}"]
    {
        assert!(std::panic::catch_unwind(|| assert_well_formed(fault)).is_err(), "{fault}");
    }
    assert_well_formed("<!DOCTYPE html>\n<a x=\"1 &gt; 0\"><b/>c &amp; d</a>");
}

#[test]
fn a_page_has_claims_names_commands_and_plots() {
    let results = fixture::demo();
    assert_sound(&results);
    let [page, tps, stages, latency, _] = everything(&results);
    let claim = "native: <b>812,345</b> transactions per second on 2 threads, 2.41 µs·core each, every result equal to sequential revm";
    assert!(page.contains(claim), "{page}");
    assert!(page.contains("signatures not inside · durability async"));
    assert!(page.contains("1.88× the sequential executor on the same blocks"));
    for name in [
        "native · dag · 2 threads",
        "native · sequential · 1 thread",
        "erc20 · dag · 2 threads",
        "erc20 · sequential · 1 thread",
    ] {
        for picture in [&page, &tps, &stages, &latency] {
            assert!(picture.contains(name), "{name}");
        }
    }
    for result in &results {
        assert!(page.contains(&format!("<pre>{}</pre>", result.command)));
    }
    for word in
        ["Durability", "TLP", "µs·core", "every rule of the chain applied", "Some Processor 9000", "3f9c2ab41d07"]
    {
        assert!(page.contains(word), "{word}");
    }
    assert_eq!(page.matches("role=\"img\"").count(), 3);
    // Self-contained: nothing to run and nothing to fetch but the sibling files that it links to.
    for outside in ["<script", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.replace("http://www.w3.org/2000/svg", "").find("://").is_none());
}

#[test]
fn a_wrong_run_makes_a_red_box_and_no_figure() {
    let mut results = fixture::demo();
    fixture::spoil(&mut results[0].runs[0]);
    assert_sound(&results);
    let [page, tps, stages, latency, _] = everything(&results);
    assert!(
        page.contains("Not drawn") && page.contains("claim wrong") && page.contains("block 3, transaction 41"),
        "{page}"
    );
    assert!(!page.contains("native: <b>") && page.contains("erc20: <b>"));
    for text in [&page, &tps, &stages, &latency] {
        assert!(!text.contains("812,345"));
    }
    for picture in [&tps, &stages, &latency] {
        assert!(!picture.contains("native · dag") && picture.contains("native · sequential"));
    }
}

#[test]
fn doubtful_figures_are_no_headline() {
    let claim_of = |change: fn(&mut BenchResult)| {
        let mut results = vec![fixture::demo().remove(0)];
        change(&mut results[0]);
        let page = html::page(&results);
        assert_well_formed(&page);
        page[page.find("class=\"claims").unwrap()..page.find("<section").unwrap()].to_owned()
    };
    assert!(claim_of(|_| ()).contains("claim good"));
    let given = claim_of(|result| result.scope.access_source = "oracle".into());
    assert!(
        given.contains("claim caution") && given.contains("makes no headline") && !given.contains("<b>"),
        "{given}"
    );
    let off = claim_of(|result| result.runs.iter_mut().for_each(|run| run.integrity.oracle = "off".into()));
    assert!(
        off.contains("claim caution") && off.contains("results not compared") && !off.contains("every result equal"),
        "{off}"
    );
    let sampled = claim_of(|result| result.runs.iter_mut().for_each(|run| run.integrity.oracle = "sampled".into()));
    assert!(sampled.contains("in the sampled blocks equal"), "{sampled}");
    assert!(claim_of(|result| result.tags.push("interrupted".into())).contains("It was interrupted"));
    assert!(claim_of(|result| result.tool.profile = "debug".into()).contains("claim caution"));
    let split = claim_of(|result| result.runs[0].integrity.state_root = "0x01".into());
    assert!(split.contains("claim caution") && split.contains("different states"), "{split}");
}

#[test]
fn a_builders_page_quotes_the_builder_and_compares_runs_of_the_same_blocks() {
    let runs = [
        ("dag", 2, 900.0),
        ("build", 2, 627.0),
        ("build-list", 2, 700.0),
        ("given-none", 2, 8_000.0),
        ("sequential", 1, 200.0),
    ];
    let mut result = fixture::bench("native", &runs);
    result.building = Some(crate::result::Building::default());
    result.runs[0].integrity.state_root = "0x0a".into();
    let claim_of = |result: &BenchResult| {
        let page = html::page(core::slice::from_ref(result));
        assert_sound(core::slice::from_ref(result));
        page[page.find("class=\"claims").unwrap()..page.find("<section").unwrap()].to_owned()
    };
    let claim = claim_of(&result);
    assert!(claim.contains("claim good") && !claim.contains("different states"), "{claim}");
    assert!(claim.contains("native: <b>627</b> transactions per second built into blocks on 2 threads"), "{claim}");
    let validated = "The same blocks are validated at 8,000 transactions per second on 2 threads (given-none), \
                     40.0× the sequential executor on the same blocks.";
    assert!(claim.contains(validated) && claim.matches('×').count() == 1, "{claim}");
    // The planner has blocks of its own: there is no ratio to the others.
    let rows = summary::rows(core::slice::from_ref(&result));
    assert_eq!([rows[0].speed_up(&rows), rows[3].speed_up(&rows)], [None, Some(40.0)]);
    for (of, root) in [(3, "0x0b"), (1, "0x0c")] {
        let mut split = result.clone();
        split.runs[of].integrity.state_root = root.into();
        assert!(claim_of(&split).contains("different states"), "{of}");
    }
    let mut again = result.clone();
    again.runs.push(again.runs[0].clone());
    assert!(!claim_of(&again).contains("different states"));
    again.runs[5].integrity.state_root = "0x0d".into();
    assert!(claim_of(&again).contains("different states"), "two runs of the planner");
}

/// Sets the verdict on a run.
fn paced(run: &mut crate::result::Run, steady: Option<bool>, drift: f64) {
    run.steady = Some(crate::result::Steady { steady, blocks: 20, drift, z: 4.0, tps: 1.0 });
}

#[test]
fn a_verdict_belongs_to_its_run_in_text_page_and_pictures() {
    let with = |dag: Option<bool>, sequential: Option<bool>| {
        let mut results = vec![fixture::demo().remove(0)];
        paced(&mut results[0].runs[0], dag, -0.3);
        paced(&mut results[0].runs[1], sequential, -0.4);
        if [dag, sequential].contains(&Some(false)) {
            results[0].tags.push("not-steady".into());
        }
        let [page, tps, stages, latency, text] = everything(&results);
        assert_sound(&results);
        let claim = page[page.find("class=\"claims").unwrap()..page.find("<section").unwrap()].to_owned();
        (claim, [page, tps, stages, latency, text])
    };
    let (claim, all) = with(Some(true), Some(true));
    assert!(claim.contains("claim good") && !all.iter().any(|text| text.contains("NOT STEADY")), "{claim}");
    // The sequential run drifts: the headline stands, and the run is named wherever the text names it.
    let (claim, all) = with(Some(true), Some(false));
    assert!(claim.contains("claim good") && !claim.contains("Its rate still drifted"), "{claim}");
    assert!(claim.contains("The rate of native · sequential · 1 thread drifted by -40 %"), "{claim}");
    let warning = "NOT STEADY, the rate drifts over the second half: native · sequential · 1 thread";
    assert!(all[..4].iter().all(|picture| picture.contains(warning)), "{}", all[1]);
    assert!(all[4].contains("native · sequential · 1 thread: NOT STEADY"), "{}", all[4]);
    // The best run itself drifts, or cannot be told.
    let (claim, _) = with(Some(false), Some(true));
    assert!(claim.contains("claim caution") && claim.contains("Its rate still drifted by -30 %"), "{claim}");
    let (claim, all) = with(None, Some(true));
    assert!(claim.contains("claim caution") && claim.contains("Too few blocks, or too much noise"), "{claim}");
    assert!(all[..4].iter().all(|picture| picture.contains("to tell whether the rate is steady: native · dag")));
}

#[test]
fn other_work_of_the_machine_is_in_text_page_and_pictures() {
    let mut results = vec![fixture::demo().remove(0)];
    let finding = |check: &str, verdict| crate::result::Finding {
        check: check.into(),
        verdict,
        found: format!("{check} <was> found"),
        advice: Some("stop it".into()),
    };
    use crate::result::{Disturbance, Verdict};
    results[0].host.findings =
        vec![finding("load", Verdict::Spoils), finding("smt", Verdict::Note), finding("numa", Verdict::Fine)];
    results[0].runs[0].disturbance = Some(Disturbance { other_cores: 1.3, stolen: 0.02 });
    results[0].runs[1].disturbance = Some(Disturbance { other_cores: 0.1, stolen: 0.0 });
    assert_sound(&results);
    let [page, tps, _, _, text] = everything(&results);
    let says = "other work kept 1.3 cores busy, 2.0 % of the time was stolen";
    assert!(page.contains("claim caution") && page.contains(says) && text.contains(says), "{text}");
    assert!(tps.contains("DISTURBED by other work of the machine: native · dag · 2 threads<"), "{tps}");
    assert!(page.contains("load &lt;was&gt; found: stop it") && page.contains("To keep in mind"), "{page}");
    assert!(!page.contains("numa"), "what has no effect is no news");
    // The headline says it too; a run beside the best spoils only the ratio to it.
    let headline = |page: &str| page.split("<section").next().unwrap().to_owned();
    assert!(headline(&page).contains("unfit before it: load load &lt;was&gt; found"), "{page}");
    results[0].host.findings.clear();
    results[0].runs.iter_mut().for_each(|run| run.disturbance = None);
    results[0].runs[1].disturbance = Some(Disturbance { other_cores: 1.3, stolen: 0.0 });
    let beside = headline(&everything(&results)[0]);
    let rough = "other work beside native · sequential · 1 thread, and a ratio to it is rough";
    assert!(beside.contains("claim good") && beside.contains(rough), "{beside}");
    results[0].runs[0].disturbance = Some(Disturbance { other_cores: 1.3, stolen: 0.02 });
    results[0].runs[1].disturbance = Some(Disturbance { other_cores: 0.1, stolen: 0.0 });
    // Too short to judge.
    results[0].runs[0].throughput.as_mut().unwrap().seconds = 0.5;
    assert!(!everything(&results).iter().any(|text| text.contains("DISTURBED")));
    results[0].runs[0].threads = 64;
    let [page, tps, _, _, text] = everything(&results);
    assert!(page.contains("It had 64 threads on 2 cores.") && text.contains("MORE THREADS THAN CORES (2)"), "{text}");
    assert!(tps.contains("MORE THREADS THAN CORES: native · dag · 64 threads"), "{tps}");
}

#[test]
fn a_picture_names_commit_machine_and_command() {
    let results = fixture::demo();
    let [page, tps, stages, latency, _] = everything(&results);
    for picture in [&tps, &stages, &latency] {
        assert!(picture.contains("commit 3f9c2ab41d07") && picture.contains("Some Processor 9000"), "{picture}");
        assert!(picture.contains("$ phalanx bench run --workload native --accounts 1048576"), "{picture}");
    }
    assert!(page.contains("<pre>phalanx bench run --workload native"), "{page}");
}

#[test]
fn names_are_escaped() {
    let evil = "</title><script>alert(\"&'\u{1b}\")</script>";
    let mut results = vec![fixture::bench(evil, &[(evil, 2, 10.0)])];
    let result = &mut results[0];
    (result.command, result.host.cpu, result.tool.commit) = (evil.into(), evil.into(), evil.into());
    (result.host.disk, result.tags) = (Some(evil.into()), vec![evil.into()]);
    (result.scope.durability, result.scope.access_source) = (evil.into(), evil.into());
    (result.scope.order, result.scope.disabled_rules) = (evil.into(), vec![evil.into()]);
    result.config.insert(evil.into(), evil.into());
    let integrity = &mut result.runs[0].integrity;
    (integrity.state_root, integrity.oracle, integrity.detail) = (evil.into(), evil.into(), evil.into());
    assert_sound(&results);
    fixture::spoil(&mut results[0].runs[0]);
    assert_sound(&results);
    assert!(everything(&results).iter().take(4).all(|text| !text.contains("<script")));
}

#[test]
fn missing_and_absurd_figures_are_drawn() {
    assert_sound(&[]);
    assert_sound(&[fixture::bench("native", &[])]);
    let odd = [
        0.0,
        -0.0,
        -1.0,
        1e-300,
        1e300,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1.0,
    ];
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut any = || odd[random.below(odd.len())];
        let mut bench = fixture::bench("native", &[("dag", 2, 5.0), ("dag", 2, 6.0), ("sequential", 0, 1.0)]);
        for run in &mut bench.runs {
            let throughput = run.throughput.as_mut().unwrap();
            (throughput.tps, throughput.seconds, throughput.gas_per_s) = (any(), any(), any());
            run.cpu.us_core_per_tx = any();
            run.block_latency_ms = Quantiles { p50: any(), p90: any(), p99: any(), max: any() };
            run.stages_ns_per_tx =
                Stages { recover: any(), execute: any(), merkle: any(), persist: any(), ..Stages::default() };
            (run.parallelism.tlp_dag, run.parallelism.tlp_frames) = (Some(any()), Some(any()));
            run.series = (0..3).map(|_| (any(), any())).collect();
        }
        println!("seed {seed}");
        assert_sound(&[bench]);
    }
}

#[test]
fn long_series_make_no_long_files() {
    let mut results = fixture::demo();
    for run in results.iter_mut().flat_map(|result| &mut result.runs) {
        run.series = (0..100_000).map(|i| (f64::from(i) * 0.1, f64::from(i % 1000))).collect();
    }
    assert_sound(&results);
    assert!(html::page(&results).len() < 120_000);
}

#[test]
fn files_are_written_and_read_back() {
    let dir = std::env::temp_dir().join(format!("phalanx-report-{}", std::process::id()));
    let results = fixture::demo();
    let paths = write(&dir.join("new/deep"), &results).unwrap();
    let names: Vec<_> = paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["index.html", "results.json", "tps.svg", "stages.svg"]);
    let json = std::fs::read_to_string(&paths[1]).unwrap();
    assert!(serde_json::from_str::<Vec<BenchResult>>(&json).unwrap() == results, "{json}");
    for path in paths.iter().filter(|path| path != &&paths[1]) {
        assert_well_formed(&std::fs::read_to_string(path).unwrap());
    }
    // A file where the folder should be is an error, not a panic.
    assert!(write(&paths[0], &results).is_err());
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Pseudo-random numbers from a seed, without a dependency.
mod random {
    pub(super) struct Random(u64);

    impl Random {
        pub(super) const fn new(seed: u64) -> Self {
            Self(seed)
        }

        /// SplitMix64.
        pub(super) const fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) % bound as u64) as usize
        }
    }
}
