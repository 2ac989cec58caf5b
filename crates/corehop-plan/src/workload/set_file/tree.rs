// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parsed JSON before its fields are interpreted.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

/// A JSON tree that keeps the order of fields, and keeps repeated fields.
#[derive(Debug)]
pub(crate) enum JsonTree {
    Object(Vec<(String, JsonTree)>),
    Array(Vec<JsonTree>),
    Leaf(Value),
}

impl JsonTree {
    /// Returns the tree as a value without an order of fields, or `None` if a field is repeated.
    pub(crate) fn value(&self) -> Option<Value> {
        match self {
            Self::Leaf(value) => Some(value.clone()),
            Self::Array(items) => items.iter().map(Self::value).collect(),
            Self::Object(fields) => {
                let values: Map<String, Value> = fields
                    .iter()
                    .map(|(name, value)| Some((name.clone(), value.value()?)))
                    .collect::<Option<_>>()?;
                (values.len() == fields.len()).then_some(Value::Object(values))
            }
        }
    }
}

impl From<Value> for JsonTree {
    fn from(value: Value) -> Self {
        match value {
            Value::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Value::Object(fields) => Self::Object(
                fields.into_iter().map(|(name, value)| (name, Self::from(value))).collect(),
            ),
            leaf => Self::Leaf(leaf),
        }
    }
}

impl Serialize for JsonTree {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Leaf(value) => value.serialize(to),
            Self::Array(items) => to.collect_seq(items),
            Self::Object(fields) => {
                to.collect_map(fields.iter().map(|(name, value)| (name, value)))
            }
        }
    }
}

impl fmt::Display for JsonTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(_) => f.write_str("an object"),
            Self::Array(_) => f.write_str("a list"),
            Self::Leaf(value) => value.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for JsonTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = JsonTree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, value: bool) -> Result<JsonTree, E> {
        Ok(JsonTree::Leaf(value.into()))
    }
    fn visit_i64<E>(self, value: i64) -> Result<JsonTree, E> {
        Ok(JsonTree::Leaf(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<JsonTree, E> {
        Ok(JsonTree::Leaf(value.into()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<JsonTree, E> {
        Ok(JsonTree::Leaf(value.into()))
    }
    fn visit_str<E>(self, value: &str) -> Result<JsonTree, E> {
        Ok(JsonTree::Leaf(value.into()))
    }
    fn visit_unit<E>(self) -> Result<JsonTree, E> {
        Ok(JsonTree::Leaf(Value::Null))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<JsonTree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(JsonTree::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonTree, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(JsonTree::Object(fields))
    }
}
