use super::{super::replay::Machine, *};
use phalanx::access::{Access, AccessSets, KeyId};

fn span(part: Part, ns: f64, pieces: usize) -> Span {
    Span { part, ns, pieces }
}

/// A block with only a wave over `dag`, all transactions equally long.
fn wave(dag: Dag, ns: f64) -> BlockCosts {
    let txs = dag.len();
    BlockCosts {
        plan: vec![],
        plan_of_many: vec![],
        run: vec![span(Part::Wave, ns, txs)],
        apply: vec![],
        keep: vec![],
        dag,
        wide: true,
        weights: vec![1.0 / txs as f64; txs],
        planned: txs,
        txs,
    }
}

/// DAG of transactions that write keys modulo `keys`.
fn writers(txs: u32, keys: u32) -> Dag {
    let mut sets = AccessSets::new();
    (0..txs).for_each(|tx| sets.push([(KeyId(tx % keys), Access::Write)]));
    Dag::build(&sets, keys as usize)
}

/// Blocks of 192 transactions that write keys modulo `keys`.
fn blocks(count: usize, keys: u32) -> Vec<BlockCosts> {
    let block = |_| BlockCosts {
        plan: vec![span(Part::Frame, 100.0, 1), span(Part::Graph, 50.0, 1)],
        run: vec![span(Part::Load, 50.0, 1), span(Part::Wave, 19_200.0, 192), span(Part::Merkle, 960.0, 960)],
        apply: vec![span(Part::ApplyAlone, 30.0, 1)],
        keep: vec![span(Part::Keep, 10.0, 1)],
        ..wave(writers(192, keys), 0.0)
    };
    (0..count).map(block).collect()
}

fn time(blocks: &[BlockCosts], constants: &Constants, cores: usize) -> f64 {
    let tasks = tasks(blocks, constants, cores, &|_| 1.0);
    tasks.replay(Machine { cores, writer_apart: true })
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-6 * b, "{a} and {b}");
}

#[test]
fn on_one_core_all_costs_add_up() {
    close(time(&blocks(10, 192), &FREE, 1), 10.0 * (150.0 + 50.0 + 19_200.0 + 960.0 + 40.0));
    close(time(&blocks(10, 1), &FREE, 1), 10.0 * 20_400.0);
}

#[test]
fn many_cores_leave_serial_parts_and_the_longest_chain() {
    // The plan of the next block hides behind the run of this one.
    let alone = |wave: f64, merkle: f64| 50.0 + wave + merkle + 40.0;
    close(time(&blocks(10, 192), &FREE, 10_000), 150.0 + 10.0 * alone(100.0, 1.0));
    // A single key: the wave is a chain.
    close(time(&blocks(10, 1), &FREE, 10_000), 150.0 + 10.0 * alone(19_200.0, 1.0));
    // 96 chains of two.
    close(time(&blocks(10, 96), &FREE, 10_000), 150.0 + 10.0 * alone(200.0, 1.0));
    let turns = Constants { overlap: false, ..FREE };
    close(time(&blocks(10, 192), &turns, 10_000), 10.0 * (150.0 + alone(100.0, 1.0)));
    // Small blocks run the sides in sequence as well.
    let small = || blocks(10, 192).into_iter().map(|block| BlockCosts { planned: MIN_OVERLAP - 1, ..block });
    close(time(&small().collect::<Vec<_>>(), &FREE, 10_000), 10.0 * (150.0 + alone(100.0, 1.0)));
}

#[test]
fn many_workers_plan_large_blocks_in_shards() {
    let of = |planned| {
        let plan_of_many = vec![span(Part::Intern, 64.0, 16)];
        [BlockCosts {
            plan: vec![span(Part::InternAlone, 48.0, 1)],
            plan_of_many,
            planned,
            ..wave(Dag::default(), 0.0)
        }]
    };
    let (many, large) = (16, 1 << 16);
    assert!(interns_in_shards(many, large) && !interns_in_shards(2, large) && !interns_in_shards(many, 100));
    for (planned, cores, ends) in [(large, many, 4.0), (large, 2, 48.0), (100, many, 48.0)] {
        close(time(&of(planned), &FREE, cores), ends);
    }
}

#[test]
fn a_block_is_framed_beside_the_assembly_of_the_one_before() {
    // A recorded analysis is a serial part, a parallel part and a serial part.
    let analysis = [(1.0, 1), (36.0, 4), (3.0, 1)].map(|(ns, pieces)| span(Part::Analyse, ns, pieces));
    let frames = |count| (0..count).flat_map(|_| analysis.into_iter().chain([span(Part::Frame, 30.0, 1)]));
    let made = [span(Part::InternAlone, 50.0, 1), span(Part::Graph, 20.0, 1)];
    let of = |plan: Vec<Span>| {
        [BlockCosts { plan_of_many: plan.clone(), plan, planned: 1 << 16, ..wave(Dag::default(), 0.0) }]
    };
    let filled: Vec<Span> = frames(2).chain(made).collect();
    close(time(&of(filled), &FREE, 8), 2.0 * (1.0 + 9.0 + 3.0 + 30.0) + 70.0);
    // The next chunk is analysed while a chunk is framed.
    let ahead: Vec<Span> = made.into_iter().chain(frames(3).skip(analysis.len())).collect();
    close(time(&of(ahead.clone()), &FREE, 8), 3.0 * 30.0);
    // With few workers one plans; the others help to analyse.
    close(time(&of(ahead.clone()), &FREE, 4), 70.0 + 3.0 * 30.0 + 2.0 * (1.0 + 9.0 + 3.0));
    close(time(&of(ahead), &FREE, 1), 70.0 + 3.0 * 30.0 + 2.0 * 40.0);
}

#[test]
fn receipts_are_sealed_beside_the_root_of_a_large_block() {
    let run =
        || vec![span(Part::GatherAlone, 10.0, 1), span(Part::MerkleAlone, 500.0, 1), span(Part::SealAlone, 300.0, 1)];
    let of = |txs| [BlockCosts { run: run(), planned: txs, txs, ..wave(Dag::default(), 0.0) }];
    let turns = Constants { overlap: false, ..FREE };
    for (txs, constants, cores, ends) in [
        (MIN_OVERLAP, FREE, 1, 810.0),
        (MIN_OVERLAP, FREE, 2, 510.0),
        (MIN_OVERLAP - 1, FREE, 2, 810.0),
        (MIN_OVERLAP, turns, 2, 810.0),
    ] {
        close(time(&of(txs), &constants, cores), ends);
    }
    // Escaped transactions count for planning, and not for receipts.
    let left = [BlockCosts { run: run(), planned: MIN_OVERLAP, txs: 1, ..wave(Dag::default(), 0.0) }];
    close(time(&left, &FREE, 2), 810.0);
}

#[test]
fn a_narrow_wave_is_for_one_worker_whatever_the_cores() {
    let dear = Constants { call_ns: 7.0, dispatch_ns: 2.0, ..FREE };
    let wide = wave(writers(96, 96), 960.0);
    close(time(&[wide], &dear, 96), 7.0 + 10.0 + 2.0);
    let narrow = BlockCosts { wide: false, ..wave(writers(96, 96), 960.0) };
    for cores in [1, 2, 96] {
        close(time(core::slice::from_ref(&narrow), &dear, cores), 960.0);
    }
}

#[test]
fn workers_begin_with_the_longest_chain() {
    // Six alone, then a chain of six: in block order two workers do the six first.
    let mut sets = AccessSets::new();
    (0..12).for_each(|tx: u32| sets.push([(KeyId(tx.min(6)), Access::Write)]));
    let mut dag = Dag::build(&sets, 7);
    close(time(&[wave(dag.clone(), 12.0)], &FREE, 2), 9.0);
    let tails = dag.tails(|_| 1);
    dag.begin_with_heaviest(&tails);
    close(time(&[wave(dag, 12.0)], &FREE, 2), 6.0);
}

#[test]
fn joins_of_a_dag_cost_nothing_and_order_all() {
    let mut sets = AccessSets::new();
    let kinds = [Access::Credit, Access::Credit, Access::Credit, Access::Read, Access::Read, Access::Write];
    kinds.iter().for_each(|kind| sets.push([(KeyId(0), *kind)]));
    let block = wave(Dag::build(&sets, 1), 60.0);
    assert!(block.dag.joins() > 0);
    close(time(&[block], &FREE, 8), 30.0);
}

#[test]
fn a_slow_writer_and_a_full_memory_are_ceilings() {
    // 192 transactions at 1000 ns each take the writer longer than anything else.
    let slow = Constants { write_ns: 1000.0, ..FREE };
    let ends = time(&blocks(40, 192), &slow, 10_000);
    let slowest = 40.0 * 192_000.0;
    // The last blocks are not waited for, but for the graph's end they are.
    assert!(ends >= slowest && ends < slowest * 1.01, "{ends}");
    let bound = Constants { memory_ns: 50.0, ..FREE };
    let ends = time(&blocks(40, 192), &bound, 10_000);
    assert!((40.0 * 9600.0..41.0 * 9600.0).contains(&ends), "{ends}");
    let disk = Constants { disk_ns: 50.0, ..FREE };
    assert!(time(&blocks(40, 192), &disk, 10_000) >= 40.0 * 9600.0);
}

#[test]
fn calls_and_dispatch_cost_only_where_there_are_several_workers() {
    let dear = Constants { call_ns: 7.0, dispatch_ns: 2.0, ..FREE };
    close(time(&blocks(3, 192), &dear, 1), time(&blocks(3, 192), &FREE, 1));
    // Two calls per block, and a wave of one transaction's time.
    close(time(&blocks(3, 192), &dear, 10_000), time(&blocks(3, 192), &FREE, 10_000) + 3.0 * (2.0 * 7.0 + 2.0));
}
