//! Logical cores, and the order in which threads take them. Where the system does not tell, there are no siblings and one
//! NUMA node.

use std::{cmp::Reverse, collections::BTreeMap, fs, path::Path};

/// A logical core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Core {
    pub(crate) id: usize,
    /// Lowest of the logical cores that share its physical core.
    pub(crate) physical: usize,
    /// NUMA node.
    pub(crate) node: usize,
}

/// Cores in the order in which threads get them: first siblings before second ones, and one NUMA node before the next.
///
/// The node with the most physical cores comes first, so that threads that fit on one node are on one. A sibling of a busy
/// core adds a fraction of a core, a core on another node most of one: so siblings come last.
pub(crate) fn order(cores: &[Core]) -> Vec<usize> {
    let mut cores = cores.to_vec();
    cores.sort_by_key(|core| core.id);
    let (mut taken, mut firsts) = (BTreeMap::<usize, usize>::new(), BTreeMap::<usize, usize>::new());
    let mut ranked: Vec<(usize, Core)> = Vec::with_capacity(cores.len());
    for core in cores {
        let siblings = taken.entry(core.physical).or_default();
        *firsts.entry(core.node).or_default() += usize::from(*siblings == 0);
        ranked.push((*siblings, core));
        *siblings += 1;
    }
    ranked.sort_by_key(|(siblings, core)| (*siblings, Reverse(firsts[&core.node]), core.node, core.id));
    ranked.into_iter().map(|(_, core)| core.id).collect()
}

/// Describes the cores `ids` by the files under `root`, which is `/sys/devices/system`.
pub(crate) fn read(root: &Path, ids: &[usize]) -> Vec<Core> {
    let text = |path: &str| fs::read_to_string(root.join(path)).ok();
    let mut nodes = BTreeMap::new();
    for node in text("node/online").and_then(|text| list(&text)).unwrap_or_default() {
        let cores = text(&format!("node/node{node}/cpulist")).and_then(|text| list(&text)).unwrap_or_default();
        nodes.extend(cores.into_iter().map(|core| (core, node)));
    }
    let core = |id: &usize| {
        let siblings = ["core_cpus_list", "thread_siblings_list"].iter();
        let siblings = siblings.filter_map(|name| list(&text(&format!("cpu/cpu{id}/topology/{name}"))?)).next();
        let physical = siblings.and_then(|siblings| siblings.first().copied()).unwrap_or(*id);
        Core { id: *id, physical, node: nodes.get(id).copied().unwrap_or(0) }
    };
    ids.iter().map(core).collect()
}

/// Numbers as Linux lists them, `0-3,8`, in order.
fn list(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.parse::<usize>().ok()?, to.parse::<usize>().ok()?);
        // No system has more cores, and a malformed file must not fill the memory.
        if to > 1 << 16 {
            return None;
        }
        numbers.extend(from..=to);
    }
    numbers.sort_unstable();
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `nodes` of `physical` cores with `siblings` each, numbered as usual: all physical cores node by node, then their
    /// siblings in the same order.
    fn machine(nodes: usize, physical: usize, siblings: usize) -> Vec<Core> {
        let all = nodes * physical;
        let core = |id: usize| Core { id, physical: id % all, node: id % all / physical };
        (0..all * siblings).map(core).collect()
    }

    #[test]
    fn physical_cores_come_before_siblings_and_a_node_before_the_next() {
        assert_eq!(order(&machine(1, 4, 1)), [0, 1, 2, 3]);
        assert_eq!(order(&machine(1, 2, 2)), [0, 1, 2, 3]);
        assert_eq!(order(&machine(2, 2, 2)), [0, 1, 2, 3, 4, 5, 6, 7]);
        // Neighbouring siblings, and alternating nodes, as other machines number them.
        let beside: Vec<Core> = (0..8).map(|id| Core { id, physical: id / 2 * 2, node: id / 4 }).collect();
        assert_eq!(order(&beside), [0, 2, 4, 6, 1, 3, 5, 7]);
        let in_turns: Vec<Core> = (0..8).map(|id| Core { id, physical: id % 4, node: id % 2 }).collect();
        assert_eq!(order(&in_turns), [0, 2, 1, 3, 4, 6, 5, 7]);
        assert!(order(&[]).is_empty());
    }

    #[test]
    fn only_available_cores_count() {
        let all = machine(2, 4, 2);
        let offered = |ids: &[usize]| -> Vec<usize> {
            order(&all.iter().filter(|core| ids.contains(&core.id)).copied().collect::<Vec<_>>())
        };
        // Core 8 is a sibling of 0, which is not available, so it counts as a physical core.
        assert_eq!(offered(&[1, 8, 9]), [1, 8, 9]);
        assert_eq!(offered(&[3, 4, 5, 6]), [4, 5, 6, 3], "the larger part of the machine comes first");
        assert_eq!(offered(&[7, 3, 11, 15]), [3, 7, 11, 15], "in whatever order they are named");
    }

    #[test]
    fn files_are_read_and_missing_facts_have_defaults() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        assert_eq!(read(dir.path(), &[3]), [Core { id: 3, physical: 3, node: 0 }]);
        write("node/online", "0-1\n");
        write("node/node0/cpulist", "0,2\n");
        write("node/node1/cpulist", "1,3\n");
        write("cpu/cpu2/topology/core_cpus_list", "0,2\n");
        write("cpu/cpu3/topology/thread_siblings_list", "1,3\n");
        write("cpu/cpu1/topology/core_cpus_list", "nonsense\n");
        let core = |id, physical, node| Core { id, physical, node };
        assert_eq!(read(dir.path(), &[0, 1, 2, 3]), [core(0, 0, 0), core(1, 1, 1), core(2, 0, 0), core(3, 1, 1)]);
    }

    #[test]
    fn lists_are_read_as_linux_writes_them() {
        assert_eq!(list("0-2,8,10-11\n"), Some(vec![0, 1, 2, 8, 10, 11]));
        assert_eq!(list("\n"), Some(vec![]), "a node without cores");
        for wrong in ["x", "1-", "-1", "1-x", "0-99999999999"] {
            assert_eq!(list(wrong), None, "{wrong}");
        }
    }
}
