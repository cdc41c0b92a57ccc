use serde_json::{Map, Value, json};

use crate::{Registry, RngKind};

impl Registry {
    /// The JSON Schema of chain files over these stages, by which an editor
    /// completes and checks them.
    pub fn chain_file_schema(&self) -> Value {
        let mut definitions = Map::new();
        let mut stages = Vec::new();
        for stage in self.iter() {
            let mut schema = stage.schema().to_value();
            let Some(object) = schema.as_object_mut() else { continue };
            object.remove("$schema");
            // A stage may bring definitions of its own; names are per document.
            if let Some(Value::Object(own)) = object.remove("$defs") {
                definitions.extend(own);
            }
            let names: Vec<&str> = [stage.name].iter().chain(stage.aliases).copied().collect();
            let name = json!({ "enum": names, "description": "Which stage." });
            let properties = object.entry("properties").or_insert_with(|| json!({}));
            if let Some(properties) = properties.as_object_mut() {
                properties.insert("use".to_owned(), name);
                for property in properties.values_mut().filter_map(Value::as_object_mut) {
                    property.remove("flags");
                }
            }
            object.insert("required".to_owned(), json!(["use"]));
            stages.push(schema);
        }
        let text = |description: &str| json!({ "type": "string", "description": description });
        let mut schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "A sampler chain",
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "title": text("A name for people."),
                "source": text("Where the settings come from."),
                "note": text("What else there is to know."),
                "seed": {
                    "description": "Decides all random choices; \"random\" draws one.",
                    "default": 42,
                    "oneOf": [
                        { "type": "integer", "minimum": 0 },
                        { "type": "string", "pattern": "^(random|[0-9]+)$" },
                    ],
                },
                "rng": {
                    "description": "The generator: mt19937 draws as llama.cpp does.",
                    "default": RngKind::default().to_string(),
                    "enum": RngKind::ALL.map(|(name, _)| name),
                },
                "samplers": {
                    "description": "The stages as a list, instead of [[stage]] tables.",
                    "oneOf": [
                        { "type": "string" },
                        { "type": "array", "items": { "type": "string" } },
                    ],
                },
                "stage": {
                    "description": "The stages, in the order in which they run.",
                    "type": "array",
                    "items": { "oneOf": stages },
                },
            },
        });
        if !definitions.is_empty() {
            schema["$defs"] = Value::Object(definitions);
        }
        schema
    }
}
