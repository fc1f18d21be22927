//! Resolves what a module tree imports, to the module that defines it, and finds circles.
//!
//! A re-export counts as an arrow only if its module also uses the name. A module's name alone is no arrow: paths through it
//! are resolved to the item.

use std::collections::{BTreeMap, BTreeSet};

use crate::methods::Methods;
use crate::tree::Tree;

/// First parts of a path that lead to a module of this crate by their place.
const ANCHORS: [&str; 3] = ["crate", "self", "super"];

/// Module or item that a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A module.
    Module(usize),
    /// An item, by the module that defines it.
    Item(usize),
}

impl Found {
    pub(crate) const fn module(self) -> usize {
        match self {
            Self::Module(module) | Self::Item(module) => module,
        }
    }
}

/// A resolved import or path.
#[derive(Debug)]
pub(crate) struct Arrow {
    /// Module that names the path.
    pub from: usize,
    /// Line of the path in that module's file.
    pub line: usize,
    /// Path as written.
    pub path: String,
    /// Modules that the path leads through, and the one that defines its item.
    pub through: Vec<usize>,
    /// Target of the path.
    pub to: Found,
    /// True for a glob, which may bring in anything of a module.
    is_glob: bool,
    /// True if the name comes from a `use` of the root, which only re-exports it.
    pub is_facade: bool,
    /// True for a re-export that its own module does not use.
    is_passed_on: bool,
    /// True for a path whose first name the module defines or imports; the import is an arrow already.
    is_repeat: bool,
}

/// Top-level module that `arrow` leads to although the root declares it above the importing one.
pub(crate) fn upward(tree: &Tree, arrow: &Arrow) -> Option<usize> {
    let own = tree.top(arrow.from).filter(|_| !arrow.is_repeat)?;
    arrow.through.iter().filter_map(|&module| tree.top(module)).find(|&top| top < own)
}

/// Resolves all imports and paths of a tree that stay within it.
pub(crate) fn arrows(tree: &Tree) -> Vec<Arrow> {
    let mut found = Vec::new();
    for (from, module) in tree.modules.iter().enumerate() {
        let used: BTreeSet<&String> = module.paths.iter().filter_map(|(path, _)| path.first()).collect();
        for import in &module.imports {
            let is_glob = import.name.is_none();
            let is_passed_on = import.is_reexport && !import.name.as_ref().is_some_and(|name| used.contains(name));
            let arrow = resolve(tree, from, &import.path, !is_glob);
            found.extend(arrow.map(|arrow| Arrow { line: import.line, is_glob, is_passed_on, ..arrow }));
        }
        for (path, line) in module.paths.iter().filter(|(path, _)| path.len() > 1) {
            let is_repeat = !ANCHORS.contains(&path[0].as_str());
            found.extend(resolve(tree, from, path, true).map(|arrow| Arrow { line: *line, is_repeat, ..arrow }));
        }
    }
    found
}

/// Follows `path`, as written in module `from`.
fn resolve(tree: &Tree, from: usize, path: &[String], is_item: bool) -> Option<Arrow> {
    let mut through = Vec::new();
    let mut is_facade = false;
    let to = follow(tree, from, path, is_item, &mut BTreeSet::new(), &mut |at, name, found| {
        let root = &tree.modules[0];
        let is_own = root.children.contains_key(name) || root.items.contains(name);
        is_facade |= at == 0 && tree.modules[from].file != 0 && !is_own;
        through.push(found.module());
    })?;
    let path = path.join("::");
    Some(Arrow { from, line: 0, path, through, to, is_glob: false, is_facade, is_passed_on: false, is_repeat: false })
}

/// Names that are being looked up, so that imports of each other end.
type Pending = BTreeSet<(usize, String, bool)>;

fn follow(
    tree: &Tree,
    from: usize,
    path: &[String],
    is_item: bool,
    pending: &mut Pending,
    hop: &mut dyn FnMut(usize, &str, Found),
) -> Option<Found> {
    let mut at = from;
    let mut names = path.iter().peekable();
    while let Some(name) = names.next_if(|name| ANCHORS.contains(&name.as_str())) {
        at = match name.as_str() {
            "crate" => 0,
            "super" => tree.modules[at].parent,
            _ => at,
        };
    }
    while let Some(name) = names.next() {
        let found = lookup(tree, at, name, is_item && names.peek().is_none(), pending)?;
        hop(at, name, found);
        match found {
            Found::Module(module) => at = module,
            Found::Item(_) => return Some(found),
        }
    }
    Some(Found::Module(at))
}

/// Meaning of `name` in `module`; where an item and a module share it, `is_item` chooses.
fn lookup(tree: &Tree, module: usize, name: &str, is_item: bool, pending: &mut Pending) -> Option<Found> {
    if !pending.insert((module, name.to_owned(), is_item)) {
        return None;
    }
    let scope = &tree.modules[module];
    let mut found: Vec<Found> = scope.children.get(name).map(|&child| Found::Module(child)).into_iter().collect();
    found.extend(scope.items.contains(name).then_some(Found::Item(module)));
    let fits = |found: &&Found| matches!(found, Found::Item(_)) == is_item;
    for import in scope.imports.iter().filter(|import| import.name.as_deref() == Some(name)) {
        if found.iter().find(fits).is_none() {
            found.extend(follow(tree, module, &import.path, is_item, pending, &mut |_, _, _| {}));
        }
    }
    for glob in scope.imports.iter().filter(|import| import.name.is_none()) {
        if found.is_empty() {
            let source = follow(tree, module, &glob.path, false, pending, &mut |_, _, _| {});
            if let Some(Found::Module(source)) = source.filter(|source| *source != Found::Module(module)) {
                found.extend(lookup(tree, source, name, is_item, pending));
            }
        }
    }
    pending.remove(&(module, name.to_owned(), is_item));
    found.iter().find(fits).or(found.first()).copied()
}

/// Files that import each other, in circles of at least two; the largest first.
pub(crate) fn circles(tree: &Tree, arrows: &[Arrow]) -> Vec<Vec<usize>> {
    let mut targets: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for arrow in arrows.iter().filter(|arrow| !arrow.is_passed_on) {
        if arrow.is_glob || matches!(arrow.to, Found::Item(_)) {
            targets.entry(tree.modules[arrow.from].file).or_default().insert(tree.modules[arrow.to.module()].file);
        }
    }
    loops(&targets)
}

/// Module that defines the item of `path`, as written in module `from`.
fn home(tree: &Tree, from: usize, path: &[String]) -> Option<usize> {
    match follow(tree, from, path, true, &mut BTreeSet::new(), &mut |_, _, _| {})? {
        Found::Item(module) => Some(module),
        Found::Module(_) => None,
    }
}

/// Files that lead to each other, in circles of at least two; the largest first.
fn loops(targets: &BTreeMap<usize, BTreeSet<usize>>) -> Vec<Vec<usize>> {
    let reach = |start: usize| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(file) = open.pop() {
            open.extend(targets.get(&file).into_iter().flatten().copied().filter(|&next| seen.insert(next)));
        }
        seen
    };
    let reached: BTreeMap<usize, BTreeSet<usize>> = targets.keys().map(|&file| (file, reach(file))).collect();
    let leads = |from: usize, to: usize| reached.get(&from).is_some_and(|reached| reached.contains(&to));
    let circle =
        |&file: &usize| -> Vec<usize> { reached[&file].iter().copied().filter(|&other| leads(other, file)).collect() };
    let mut circles: Vec<Vec<usize>> = reached.keys().map(circle).filter(|circle| circle.len() > 1).collect();
    circles.sort_by_key(|circle| (usize::MAX - circle.len(), circle[0]));
    circles.dedup();
    circles
}

/// Files of one type whose methods call each other, in circles of at least two, with the type's name.
pub(crate) fn method_circles(tree: &Tree) -> Vec<(String, Vec<usize>)> {
    let mut types: BTreeMap<(usize, &String), Vec<(usize, &Methods)>> = BTreeMap::new();
    for (at, module) in tree.modules.iter().enumerate() {
        for methods in &module.methods {
            if let (Some(home), Some(name)) = (home(tree, at, &methods.path), methods.path.last()) {
                types.entry((home, name)).or_default().push((module.file, methods));
            }
        }
    }
    let mut found = Vec::new();
    for ((_, name), all) in types {
        let mut targets: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (from, methods) in &all {
            let called = all.iter().filter(|(_, other)| !other.defined.is_disjoint(&methods.called));
            targets.entry(*from).or_default().extend(called.map(|(to, _)| *to));
        }
        found.extend(loops(&targets).into_iter().map(|circle| (name.clone(), circle)));
    }
    found
}
