//! Examples of a call in three languages, with the service's own address. The key is read from an
//! environment variable; a real key is never in an example.

/// A call, written in three languages.
pub(crate) struct CallExamples {
    pub(crate) curl: String,
    pub(crate) python: String,
    pub(crate) typescript: String,
}

impl CallExamples {
    /// A GET of this address.
    pub(crate) fn get(address: &str) -> Self {
        Self {
            curl: format!("curl {address} \\\n  -H \"X-API-Key: $API_KEY\" -i"),
            python: format!(
                "import os\n\nimport httpx\n\nresponse = httpx.get(\n    \"{address}\",\n    \
                 headers={{\"X-API-Key\": os.environ[\"API_KEY\"]}},\n)\nresponse.raise_for_status()\n\
                 print(response.json(), response.headers[\"X-Credits-Cost\"])"
            ),
            typescript: format!(
                "const response = await fetch(\"{address}\", {{\n  \
                 headers: {{ \"X-API-Key\": process.env.API_KEY! }},\n}});\n\
                 if (!response.ok) throw new Error(`${{response.status}}`);\n\
                 console.log(await response.json(), response.headers.get(\"X-Credits-Cost\"));"
            ),
        }
    }
}
