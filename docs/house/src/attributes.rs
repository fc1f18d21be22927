//! Attributes that decide where a module lies and whether it is one of tests.

use syn::{Attribute, Expr, Lit, Meta};

/// File that `#[path]` names.
pub(crate) fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    let meta = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?.meta.require_name_value().ok()?;
    match &meta.value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(path) => Some(path.value()),
            _ => None,
        },
        _ => None,
    }
}

/// True if the item exists in tests only.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    fn needs_test(meta: &Meta) -> bool {
        let inner = |list: &syn::MetaList| {
            list.parse_args_with(syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated)
                .unwrap_or_default()
        };
        match meta {
            Meta::Path(path) => path.is_ident("test"),
            Meta::List(list) if list.path.is_ident("all") => inner(list).iter().any(needs_test),
            Meta::List(list) if list.path.is_ident("any") => inner(list).iter().all(needs_test),
            _ => false,
        }
    }
    let is_cfg = |attribute: &&Attribute| attribute.path().is_ident("cfg");
    let needs = |attribute: &Attribute| attribute.parse_args::<Meta>().is_ok_and(|meta| needs_test(&meta));
    attributes.iter().filter(is_cfg).any(needs) || attributes.iter().any(|attribute| attribute.path().is_ident("test"))
}
