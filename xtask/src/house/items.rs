//! Measurement of functions and types.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, FnArg, ImplItemFn, ItemFn, ItemMod, Signature, TraitItemFn, Type};

use super::source::{Crate, is_test};

/// A function of the product.
pub(super) struct Function {
    /// The crate, the file and the name of the function.
    pub(super) place: String,
    /// Number of lines from the signature to the closing brace.
    pub(super) lines: usize,
    /// Whether a parameter is a tuple of three or more values, nested tuples included.
    pub(super) takes_tuple: bool,
    /// Whether a parameter is a `bool`, or a tuple with one.
    pub(super) takes_bool: bool,
    /// The number of parameters, with each value of a tuple counted.
    pub(super) parameters: usize,
}

/// The definitions of the product.
#[derive(Default)]
pub(super) struct Items {
    pub(super) functions: Vec<Function>,
    /// The name and the place of each definition of a type or a trait.
    pub(super) types: Vec<(String, String)>,
}

/// Measures all definitions of the crates.
pub(super) fn of(crates: &[Crate]) -> Items {
    let mut items = Items::default();
    for krate in crates {
        for file in &krate.files {
            let place = format!("{}/{}", krate.name, file.path);
            let mut visitor = Visitor { place, items: &mut items, is_foreign_trait: false };
            file.items.iter().for_each(|item| visitor.visit_item(item));
        }
    }
    items
}

struct Visitor<'a> {
    place: String,
    items: &'a mut Items,
    /// Whether the visitor is inside an implementation of a trait, which determines the signatures.
    is_foreign_trait: bool,
}

impl Visitor<'_> {
    fn function(&mut self, signature: &Signature, lines: usize, attributes: &[Attribute]) {
        if is_test(attributes) {
            return;
        }
        let types = signature.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(typed) => Some(&*typed.ty),
            FnArg::Receiver(_) => None,
        });
        let types: Vec<&Type> = types.collect();
        let takes =
            |test: fn(&Type) -> bool| !self.is_foreign_trait && types.iter().any(|ty| test(ty));
        self.items.functions.push(Function {
            place: format!("{} {}", self.place, signature.ident),
            lines,
            takes_tuple: takes(|ty| values(ty) > 2),
            takes_bool: takes(has_bool),
            parameters: types.iter().map(|ty| values(ty)).sum(),
        });
    }

    fn type_name(&mut self, name: &syn::Ident, attributes: &[Attribute]) {
        if !is_test(attributes) {
            self.items.types.push((name.to_string(), self.place.clone()));
        }
    }
}

/// Returns whether a parameter of this type is a `bool` or a tuple with one.
fn has_bool(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => path.path.is_ident("bool"),
        Type::Tuple(tuple) => tuple.elems.iter().any(has_bool),
        Type::Reference(reference) => reference.mutability.is_none() && has_bool(&reference.elem),
        Type::Paren(paren) => has_bool(&paren.elem),
        _ => false,
    }
}

/// Returns the number of values in a parameter of this type.
fn values(ty: &Type) -> usize {
    match ty {
        Type::Tuple(tuple) => tuple.elems.iter().map(values).sum(),
        Type::Reference(reference) => values(&reference.elem),
        Type::Paren(paren) => values(&paren.elem),
        _ => 1,
    }
}

fn lines(of: &impl Spanned, signature: &Signature) -> usize {
    of.span().end().line + 1 - signature.span().start().line
}

impl Visit<'_> for Visitor<'_> {
    fn visit_item_fn(&mut self, item: &ItemFn) {
        self.function(&item.sig, lines(item, &item.sig), &item.attrs);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &ImplItemFn) {
        self.function(&item.sig, lines(item, &item.sig), &item.attrs);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &TraitItemFn) {
        self.function(&item.sig, lines(item, &item.sig), &item.attrs);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &syn::ItemImpl) {
        self.is_foreign_trait = item.trait_.is_some();
        visit::visit_item_impl(self, item);
        self.is_foreign_trait = false;
    }

    fn visit_item_mod(&mut self, item: &ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &syn::ItemStruct) {
        self.type_name(&item.ident, &item.attrs);
    }

    fn visit_item_enum(&mut self, item: &syn::ItemEnum) {
        self.type_name(&item.ident, &item.attrs);
    }

    fn visit_item_type(&mut self, item: &syn::ItemType) {
        self.type_name(&item.ident, &item.attrs);
    }

    fn visit_item_union(&mut self, item: &syn::ItemUnion) {
        self.type_name(&item.ident, &item.attrs);
    }

    fn visit_item_trait(&mut self, item: &syn::ItemTrait) {
        self.type_name(&item.ident, &item.attrs);
        visit::visit_item_trait(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bool_in_a_tuple_or_behind_a_reference_is_one() {
        let has = |ty| has_bool(&syn::parse_str(ty).expect("a type"));
        assert!(has("bool") && has("&bool") && has("(bool, &Services)") && has("(u8, (u8, bool))"));
        // Results of a function and fields with a name do not count.
        assert!(!has("&mut bool") && !has("Vec<bool>") && !has("(u8, &str)"));
    }
}
