//! Configurations that give a built-in platform another name.

use settings::Config;

/// The same configuration with `built_in` under `name`. The other platforms lose their addresses.
pub fn renamed(config: &Config, built_in: &str, name: &str) -> Config {
    let mut all: toml::Table = config.to_toml().unwrap().parse().unwrap();
    let platforms = all["platforms"].as_table_mut().unwrap();
    platforms.retain(|platform, _| platform == built_in);
    let own = platforms[built_in].as_table_mut().unwrap();
    own.insert("extends".to_owned(), built_in.into());
    let mut tree = toml::Value::Table(all);
    rename_keys(&mut tree, built_in, name);
    let mut renamed = Config::from_toml(&toml::to_string(&tree).unwrap()).unwrap();
    // Secrets are not in the text of a configuration.
    renamed.database = config.database.clone();
    renamed.processor.clone_from(&config.processor);
    renamed.secrets = config.secrets.clone();
    renamed
}

/// Makes the built-in platforms have their own names again in this process.
pub fn names_back() {
    drop(Config::from_toml("").unwrap());
}

fn rename_keys(value: &mut toml::Value, from: &str, to: &str) {
    match value {
        toml::Value::Table(table) => {
            if let Some(own) = table.remove(from) {
                table.insert(to.to_owned(), own);
            }
            for (_, inner) in table.iter_mut() {
                rename_keys(inner, from, to);
            }
        }
        toml::Value::Array(items) => {
            for inner in items {
                rename_keys(inner, from, to);
            }
        }
        _ => {}
    }
}
