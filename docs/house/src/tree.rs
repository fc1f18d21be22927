//! Module tree of one crate root, from its sources: what each module defines, imports and names.
//!
//! Items behind `#[cfg(test)]` are no part of it; their lines and files are noted as tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context;
use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, UseTree, Visibility};

use crate::attributes::{is_test, path_attribute};
use crate::methods::Methods;
use crate::workspace;

/// Module tree of one root; module 0 and file 0 are the root's.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Files relative to the workspace.
    pub files: Vec<PathBuf>,
    /// Modules; parents come before their children, siblings in the order of their declaration.
    pub modules: Vec<Module>,
    /// First and last line of each test item, by file.
    pub test_lines: Vec<(usize, usize, usize)>,
    /// Files that only tests declare; a folder stands for all below it.
    pub test_files: BTreeSet<PathBuf>,
}

/// A module, as its file or block spells it.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// Last part of the path; empty for the root.
    pub name: String,
    /// Module that declares this one.
    pub parent: usize,
    /// Index into [`Tree::files`].
    pub file: usize,
    /// Modules declared here.
    pub children: BTreeMap<String, usize>,
    /// Names of items defined here.
    pub items: BTreeSet<String>,
    /// `use` declarations, also those within functions.
    pub imports: Vec<Import>,
    /// Paths named in code, with their lines.
    pub paths: Vec<(Vec<String>, usize)>,
    /// Methods of each `impl` here.
    pub methods: Vec<Methods>,
}

/// A name that a `use` declaration brings in.
#[derive(Debug)]
pub(crate) struct Import {
    /// Path as written.
    pub path: Vec<String>,
    /// Name within the module; none for a glob.
    pub name: Option<String>,
    /// Line in the module's file.
    pub line: usize,
    /// True if other modules see the name: a re-export.
    pub is_reexport: bool,
}

impl Tree {
    /// Parses `file` and all files that it declares.
    ///
    /// # Errors
    /// If a declared file is missing or does not parse.
    pub(crate) fn parse(root: &Path, file: &Path) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        let folder = file.parent().context("a root lies in a folder")?;
        tree.add_file(root, file, folder, Module::default())?;
        Ok(tree)
    }

    fn add_file(&mut self, root: &Path, file: &Path, folder: &Path, module: Module) -> anyhow::Result<usize> {
        let source = workspace::read(root, file)?;
        let parsed = syn::parse_file(&source).with_context(|| format!("cannot parse {}", file.display()))?;
        self.files.push(file.to_path_buf());
        self.add_module(root, folder, Module { file: self.files.len() - 1, ..module }, &parsed.items)
    }

    fn add_module(&mut self, root: &Path, folder: &Path, module: Module, items: &[Item]) -> anyhow::Result<usize> {
        let (own, file) = (self.modules.len(), module.file);
        self.modules.push(module);
        let mut collect = Collect::default();
        items.iter().for_each(|item| collect.visit_item(item));
        let module = &mut self.modules[own];
        (module.items, module.imports, module.paths) = (collect.items, collect.imports, collect.paths);
        module.methods = collect.methods;
        self.test_lines.extend(collect.test_lines.iter().map(|&(first, last)| (file, first, last)));
        for item in items {
            let Item::Mod(item) = item else { continue };
            let (name, is_test) = (item.ident.to_string(), is_test(&item.attrs));
            let below = folder.join(&name);
            let child = Module { name: name.clone(), parent: own, file, ..Module::default() };
            let index = if let Some((_, items)) = &item.content {
                if is_test {
                    continue;
                }
                self.add_module(root, &below, child, items)?
            } else {
                let (file, below) = match path_attribute(&item.attrs) {
                    Some(path) => {
                        let path = self.files[file].with_file_name(path);
                        let below = path.with_file_name("");
                        (path, below)
                    }
                    None if root.join(below.join("mod.rs")).is_file() => (below.join("mod.rs"), below),
                    None => (below.with_extension("rs"), below),
                };
                if is_test {
                    self.test_files.extend([file, below]);
                    continue;
                }
                self.add_file(root, &file, &below, child)?
            };
            // The variants of a module that conditions choose from (std or loom) are one name.
            self.modules[own].children.entry(name).or_insert(index);
        }
        Ok(own)
    }

    /// Module just below the root that `module` lies in; none for the root itself.
    pub(crate) fn top(&self, mut module: usize) -> Option<usize> {
        while module != 0 && self.modules[module].parent != 0 {
            module = self.modules[module].parent;
        }
        (module != 0).then_some(module)
    }
}

/// Gathers what one module names; modules below it are left out.
#[derive(Default)]
struct Collect {
    items: BTreeSet<String>,
    imports: Vec<Import>,
    paths: Vec<(Vec<String>, usize)>,
    test_lines: Vec<(usize, usize)>,
    methods: Vec<Methods>,
}

impl Collect {
    fn import(&mut self, tree: &UseTree, mut path: Vec<String>, is_reexport: bool) {
        let line = tree.span().start().line;
        let name = match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                return self.import(&part.tree, path, is_reexport);
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.import(tree, path.clone(), is_reexport));
            }
            UseTree::Name(name) if name.ident == "self" => path.last().cloned(),
            UseTree::Name(name) => {
                path.push(name.ident.to_string());
                path.last().cloned()
            }
            UseTree::Rename(name) => {
                if name.ident != "self" {
                    path.push(name.ident.to_string());
                }
                Some(name.rename.to_string())
            }
            UseTree::Glob(_) => None,
        };
        self.imports.push(Import { path, name, line, is_reexport });
    }

    /// Paths within a macro's tokens, which nothing has parsed.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut line, mut colons) = (Vec::new(), 0, 2);
        for token in tokens {
            match &token {
                TokenTree::Ident(ident) if colons == 2 => {
                    path.push(ident.to_string());
                    line = ident.span().start().line;
                    colons = 0;
                    continue;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                    continue;
                }
                _ => self.paths.push((std::mem::take(&mut path), line)),
            }
            colons = 2;
            match token {
                TokenTree::Ident(ident) => {
                    path.push(ident.to_string());
                    (line, colons) = (ident.span().start().line, 0);
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => {}
            }
        }
        self.paths.push((path, line));
    }
}

impl<'ast> Visit<'ast> for Collect {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name): (&[Attribute], _) = match item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::ExternCrate(item) => (&item.attrs, None),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::ForeignMod(item) => (&item.attrs, None),
            Item::Impl(item) => (&item.attrs, None),
            Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            Item::Mod(item) => (&item.attrs, None),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::TraitAlias(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Union(item) => (&item.attrs, Some(&item.ident)),
            Item::Use(item) => (&item.attrs, None),
            _ => (&[], None),
        };
        if is_test(attributes) {
            self.test_lines.push((item.span().start().line, item.span().end().line));
            return;
        }
        self.items.extend(name.map(ToString::to_string));
        match item {
            Item::Mod(_) => {}
            Item::Use(item) => {
                self.import(&item.tree, Vec::new(), !matches!(item.vis, Visibility::Inherited));
            }
            _ => {
                self.methods.extend(if let Item::Impl(item) = item { Methods::of(item) } else { None });
                visit::visit_item(self, item);
            }
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        match item {
            ImplItem::Fn(method) if is_test(&method.attrs) => {
                self.test_lines.push((item.span().start().line, item.span().end().line));
            }
            _ => visit::visit_impl_item(self, item),
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.paths.push((parts, path.span().start().line));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    // Neither names an item of another module.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}
