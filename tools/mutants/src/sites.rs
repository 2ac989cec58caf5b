// SPDX-License-Identifier: MIT OR Apache-2.0
//! The places of a source file that can be mutated, each with the change.
//!
//! A mutant is switched on while the program runs, so that a place must be evaluated while it runs: constants, patterns,
//! types, attributes and functions that the compiler can evaluate (`const fn`) have no mutants. In macros, only the
//! arguments of a few of the standard library are expressions for certain.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Lit, Stmt, Token, UnOp};

use crate::modules::{Enabled, SourceText};

/// The kind of a mutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MutationKind {
    /// Another operator, or a negation removed.
    Operator,
    /// A condition that is negated, or that always or never holds.
    Condition,
    /// Another number or truth value.
    Constant,
    /// A statement that is not executed.
    Statement,
}

/// A text that replaces a range of bytes of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    pub range: Range<usize>,
    pub text: String,
}

/// A mutation of one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mutation {
    pub kind: MutationKind,
    /// The expression, or the statement with its semicolon, that has two forms at run time: bytes of the source.
    pub range: Range<usize>,
    /// The changes of the source, in order; none where the statement is left out.
    pub edits: Vec<Edit>,
}

impl Mutation {
    /// The source text in `range` (which contains the mutation) with the mutation.
    pub(crate) fn mutated(&self, text: &str, range: &Range<usize>) -> String {
        let mut result = String::new();
        let mut at = range.start;
        for edit in &self.edits {
            result.push_str(&text[at..edit.range.start]);
            result.push_str(&edit.text);
            at = edit.range.end;
        }
        result.push_str(&text[at..range.end]);
        result
    }

    /// The lines of the source that the mutation changes.
    pub(crate) fn lines(&self, text: &str) -> Range<usize> {
        let first = self.edits.first().map_or(self.range.start, |edit| edit.range.start);
        let last = self.edits.last().map_or(self.range.end, |edit| edit.range.end);
        let start = text[..first].rfind('\n').map_or(0, |at| at + 1);
        let end = text[last..].find('\n').map_or(text.len(), |at| last + at);
        start..end
    }
}

/// Every mutation of a source file.
pub(crate) fn find(source: &SourceText) -> Vec<Mutation> {
    let mut finder = SiteFinder { enabled: &source.enabled, text: &source.text, found: Vec::new() };
    finder.visit_file(&source.parsed);
    finder.found
}

struct SiteFinder<'a> {
    enabled: &'a Enabled,
    text: &'a str,
    found: Vec<Mutation>,
}

impl SiteFinder<'_> {
    fn add(&mut self, kind: MutationKind, range: Range<usize>, edits: Vec<Edit>) {
        self.found.push(Mutation { kind, range, edits });
    }

    /// Replaces `part` of the expression `whole`.
    fn replace(&mut self, kind: MutationKind, whole: &impl Spanned, part: &impl Spanned, by: &str) {
        let edit = Edit { range: bytes(part), text: by.to_owned() };
        self.add(kind, bytes(whole), vec![edit]);
    }

    fn operator(&mut self, node: &syn::ExprBinary) {
        if [&node.left, &node.right].into_iter().any(|side| binds(side)) {
            return;
        }
        let Some(other) = other_operator(&node.op) else { return };
        let (whole, sign) = (bytes(node), bytes(&node.op));
        let mut edits = vec![Edit { range: sign, text: other.to_owned() }];
        if other == "||" {
            // Its neighbours may bind more tightly than the new operator.
            let at = |at: usize, text: &str| Edit { range: at..at, text: text.to_owned() };
            edits.insert(0, at(whole.start, "("));
            edits.push(at(whole.end, ")"));
        }
        self.add(MutationKind::Operator, whole, edits);
    }

    fn condition(&mut self, condition: &Expr) {
        if binds(condition) || matches!(condition, Expr::Lit(_)) {
            return;
        }
        let negated = format!("!({})", &self.text[bytes(condition)]);
        for by in [negated.as_str(), "true", "false"] {
            self.replace(MutationKind::Condition, condition, condition, by);
        }
    }

    fn constant(&mut self, node: &syn::ExprLit) {
        let others = match &node.lit {
            Lit::Int(number) => other_integers(number),
            Lit::Float(number) => other_floats(number),
            Lit::Bool(value) => vec![(!value.value).to_string()],
            _ => Vec::new(),
        };
        for by in others {
            self.replace(MutationKind::Constant, node, node, &by);
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        let removed = match statement {
            Stmt::Expr(expression, Some(_)) => acts(expression),
            Stmt::Macro(node) => node.semi_token.is_some() && !asserts(&node.mac),
            _ => false,
        };
        if removed {
            let range = bytes(statement);
            let edit = Edit { range: range.clone(), text: String::new() };
            self.add(MutationKind::Statement, range, vec![edit]);
        }
    }
}

/// Visits the parts of a node whose attributes the compiler keeps.
macro_rules! kept {
    ($($visit:ident: $node:ident),* $(,)?) => {
        $(fn $visit(&mut self, node: &'ast syn::$node) {
            if self.enabled.keeps(&node.attrs) {
                visit::$visit(self, node);
            }
        })*
    };
}

/// Nodes without expressions that are evaluated at run time.
macro_rules! skipped {
    ($($visit:ident: $node:ident),* $(,)?) => {
        $(fn $visit(&mut self, _: &'ast syn::$node) {})*
    };
}

impl<'ast> Visit<'ast> for SiteFinder<'_> {
    kept!(
        visit_item_impl: ItemImpl,
        visit_item_mod: ItemMod,
        visit_item_trait: ItemTrait,
        visit_local: Local,
        visit_field_value: FieldValue,
    );
    skipped!(
        visit_item_const: ItemConst,
        visit_item_static: ItemStatic,
        visit_item_macro: ItemMacro,
        visit_impl_item_const: ImplItemConst,
        visit_trait_item_const: TraitItemConst,
        visit_variant: Variant,
        visit_type: Type,
        visit_generics: Generics,
        visit_angle_bracketed_generic_arguments: AngleBracketedGenericArguments,
        visit_pat: Pat,
        visit_attribute: Attribute,
        visit_expr_const: ExprConst,
    );

    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        if self.enabled.keeps(&node.attrs) && node.sig.constness.is_none() {
            visit::visit_item_fn(self, node);
        }
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        if self.enabled.keeps(&node.attrs) && node.sig.constness.is_none() {
            visit::visit_impl_item_fn(self, node);
        }
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        if self.enabled.keeps(&node.attrs) && node.sig.constness.is_none() {
            visit::visit_trait_item_fn(self, node);
        }
    }

    fn visit_stmt(&mut self, node: &'ast Stmt) {
        let attributes = match node {
            Stmt::Expr(expression, _) => attributes(expression),
            Stmt::Macro(node) => &node.attrs,
            Stmt::Local(_) | Stmt::Item(_) => &[],
        };
        if self.enabled.keeps(attributes) {
            self.statement(node);
            visit::visit_stmt(self, node);
        }
    }

    fn visit_arm(&mut self, node: &'ast syn::Arm) {
        if !self.enabled.keeps(&node.attrs) {
            return;
        }
        if let Some((_, guard)) = &node.guard {
            self.condition(guard);
        }
        visit::visit_arm(self, node);
    }

    fn visit_expr_if(&mut self, node: &'ast syn::ExprIf) {
        self.condition(&node.cond);
        visit::visit_expr_if(self, node);
    }

    fn visit_expr_while(&mut self, node: &'ast syn::ExprWhile) {
        self.condition(&node.cond);
        visit::visit_expr_while(self, node);
    }

    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        self.operator(node);
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_unary(&mut self, node: &'ast syn::ExprUnary) {
        if let UnOp::Not(sign) = &node.op {
            self.replace(MutationKind::Operator, node, sign, "");
        }
        visit::visit_expr_unary(self, node);
    }

    fn visit_expr_lit(&mut self, node: &'ast syn::ExprLit) {
        self.constant(node);
    }

    fn visit_expr_repeat(&mut self, node: &'ast syn::ExprRepeat) {
        // The length is a constant.
        self.visit_expr(&node.expr);
    }

    fn visit_macro(&mut self, node: &'ast syn::Macro) {
        for expression in arguments(node) {
            // Its nodes live no longer than this call; what is found is bytes of the text.
            let mut inner =
                SiteFinder { enabled: self.enabled, text: self.text, found: Vec::new() };
            inner.visit_expr(&expression);
            self.found.append(&mut inner.found);
        }
    }
}

/// The bytes of a node in its file.
fn bytes(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

/// Whether a condition binds names by `let`, which no other expression can contain.
fn binds(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(node) => {
            matches!(node.op, BinOp::And(_) | BinOp::Or(_))
                && (binds(&node.left) || binds(&node.right))
        }
        Expr::Group(node) => binds(&node.expr),
        _ => false,
    }
}

fn other_operator(operator: &BinOp) -> Option<&'static str> {
    Some(match operator {
        BinOp::And(_) => "||",
        BinOp::Or(_) => "&&",
        BinOp::Lt(_) => "<=",
        BinOp::Le(_) => "<",
        BinOp::Gt(_) => ">=",
        BinOp::Ge(_) => ">",
        BinOp::Eq(_) => "!=",
        BinOp::Ne(_) => "==",
        BinOp::Add(_) => "-",
        BinOp::Sub(_) => "+",
        BinOp::Mul(_) => "/",
        BinOp::Div(_) => "*",
        BinOp::AddAssign(_) => "-=",
        BinOp::SubAssign(_) => "+=",
        BinOp::MulAssign(_) => "/=",
        BinOp::DivAssign(_) => "*=",
        _ => return None,
    })
}

/// Zero and the next number, or the other of 0 and 1.
fn other_integers(number: &syn::LitInt) -> Vec<String> {
    let Ok(value) = number.base10_parse::<u128>() else { return Vec::new() };
    let others = match value {
        0 => vec![1],
        1 => vec![0, 2],
        _ => vec![value.saturating_add(1), 0],
    };
    others.iter().map(|other| format!("{other}{}", number.suffix())).collect()
}

fn other_floats(number: &syn::LitFloat) -> Vec<String> {
    let Ok(value) = number.base10_parse::<f64>() else { return Vec::new() };
    let others = if value == 0.0 { vec![1.0] } else { vec![value + 1.0, 0.0] };
    others.iter().map(|other: &f64| format!("{other:?}{}", number.suffix())).collect()
}

/// Whether a statement of this expression does something besides its value.
fn acts(expression: &Expr) -> bool {
    match expression {
        Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_) => true,
        Expr::Binary(node) => assigns(&node.op),
        Expr::Try(node) => matches!(&*node.expr, Expr::Macro(_)) || acts(&node.expr),
        _ => false,
    }
}

fn assigns(operator: &BinOp) -> bool {
    matches!(
        operator,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

fn name(node: &syn::Macro) -> String {
    node.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
}

/// Assertions state what holds anyway: no test can tell whether they are there.
fn asserts(node: &syn::Macro) -> bool {
    name(node).contains("assert")
}

/// The expressions among the arguments of a macro; none where the macro is not known.
fn arguments(node: &syn::Macro) -> Vec<Expr> {
    match name(node).as_str() {
        "vec" | "format" | "write" | "writeln" | "print" | "println" | "eprint" | "eprintln"
        | "bail" | "ensure" | "anyhow" => {
            let all = node.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
            let repeated = |input: syn::parse::ParseStream| {
                let value: Expr = input.parse()?;
                input.parse::<Token![;]>()?;
                Ok(vec![value, input.parse()?])
            };
            let all = all.map(|list| list.into_iter().collect());
            all.or_else(|_| node.parse_body_with(repeated)).unwrap_or_default()
        }
        "matches" => {
            let first = |input: syn::parse::ParseStream| {
                let value: Expr = input.parse()?;
                input.parse::<proc_macro2::TokenStream>()?;
                Ok(vec![value])
            };
            node.parse_body_with(first).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// The attributes of an expression that can stand as a statement.
fn attributes(expression: &Expr) -> &[syn::Attribute] {
    match expression {
        Expr::Block(node) => &node.attrs,
        Expr::Unsafe(node) => &node.attrs,
        Expr::If(node) => &node.attrs,
        Expr::Match(node) => &node.attrs,
        Expr::ForLoop(node) => &node.attrs,
        Expr::While(node) => &node.attrs,
        Expr::Loop(node) => &node.attrs,
        Expr::Call(node) => &node.attrs,
        Expr::MethodCall(node) => &node.attrs,
        Expr::Assign(node) => &node.attrs,
        Expr::Binary(node) => &node.attrs,
        Expr::Return(node) => &node.attrs,
        Expr::Macro(node) => &node.attrs,
        _ => &[],
    }
}

#[cfg(test)]
#[path = "sites_tests.rs"]
mod tests;
