//! Methods of a type that call each other through `self`, across files: imports show no such circle.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Expr, ImplItem, ItemImpl, Type};

use crate::attributes::is_test;

/// Methods that one `impl` defines, and those of the same type that it calls.
#[derive(Debug, Default)]
pub(crate) struct Methods {
    /// Path of the type as written.
    pub path: Vec<String>,
    /// Names that it defines.
    pub defined: BTreeSet<String>,
    /// Names that it calls by `self` or `Self`.
    pub called: BTreeSet<String>,
}

impl Methods {
    /// Methods of an `impl`, without those of tests; none for a type that is no path.
    pub(crate) fn of(item: &ItemImpl) -> Option<Self> {
        let Type::Path(path) = &*item.self_ty else { return None };
        let path = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let mut methods = Self { path, ..Self::default() };
        for item in &item.items {
            if let ImplItem::Fn(method) = item
                && !is_test(&method.attrs)
            {
                methods.defined.insert(method.sig.ident.to_string());
                methods.visit_block(&method.block);
            }
        }
        Some(methods)
    }

    /// Calls within a macro's tokens, which nothing has parsed.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut before = String::new();
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    let name = ident.to_string();
                    self.called.extend((before == "self." || before == "Self::").then(|| name.clone()));
                    before = name;
                }
                TokenTree::Punct(punct) => before.push(punct.as_char()),
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(_) => before.clear(),
            }
        }
    }
}

impl<'ast> Visit<'ast> for Methods {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let is_own = matches!(&*call.receiver, Expr::Path(path) if path.path.is_ident("self"));
        self.called.extend(is_own.then(|| call.method.to_string()));
        visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut parts = path.segments.iter();
        if parts.next().is_some_and(|first| first.ident == "Self") {
            self.called.extend(parts.next().map(|second| second.ident.to_string()));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
    }
}
