//! Files that import each other in a circle can only be read and changed together, so circles stay
//! small.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::assert_tidy;
use crate::tree::{self, File};

/// The most files that may import each other in a circle.
const FILES_MAX: usize = 6;
/// How many re-exports of re-exports are followed.
const REEXPORTS_MAX: usize = 5;

/// The path of a module below its crate.
type ModulePath = Vec<String>;

#[test]
fn at_most_six_files_import_each_other_in_a_circle() {
    let mut findings = Vec::new();
    for package in tree::crates() {
        let modules = CrateModules::of(&package.folder);
        for circle in modules.circles().into_iter().filter(|circle| circle.len() > FILES_MAX) {
            findings.push(format!(
                "{}: {} files import each other in a circle; move what they share into a file of its own:\n  {}",
                package.folder,
                circle.len(),
                modules.imports_within(&circle).join("\n  ")
            ));
        }
    }
    assert_tidy(&findings);
}

#[test]
fn circles_are_found_through_reexports() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let files = [
        file("crates/x/src/lib.rs", "mod one; mod two; mod leaf; pub use two::Two;"),
        file("crates/x/src/one.rs", "use crate::Two; use super::leaf::{self, Leaf}; struct One;"),
        file("crates/x/src/two/mod.rs", "mod deep; fn two() { deep::run() } pub struct Two;"),
        file("crates/x/src/two/deep.rs", "use crate::one::One; pub(super) fn run() {}"),
        file("crates/x/src/leaf.rs", "#[cfg(test)] mod tests { use crate::one::One; }"),
    ];

    let circles = CrateModules::new("crates/x", &files).circles();

    let found: Vec<Vec<String>> = circles
        .iter()
        .map(|circle| circle.iter().map(|module| module.join("::")).collect())
        .collect();
    assert_eq!(found, [["one", "two", "two::deep"]]);
}

/// The modules of a crate and what each of them imports.
struct CrateModules {
    imports: BTreeMap<ModulePath, BTreeSet<ModulePath>>,
}

impl CrateModules {
    fn of(folder: &str) -> Self {
        Self::new(folder, &tree::files(&tree::root().join(folder).join("src"), &["rs"]))
    }

    fn new(folder: &str, files: &[File]) -> Self {
        let mut modules = BTreeMap::new();
        for file in files {
            let Some(module) = module_of(folder, &file.path) else { continue };
            let mut names = NamedPaths::default();
            names.visit_file(&syn::parse_file(&file.text).unwrap());
            modules.insert(module, names);
        }
        let known: BTreeSet<&ModulePath> = modules.keys().collect();
        let mut reexports = BTreeMap::new();
        for (module, names) in &modules {
            for exported in &names.reexported {
                if let Some(target) = resolved(&known, module, &exported.path)
                    && target.module != *module
                {
                    reexports.insert((module.clone(), exported.name.clone()), target);
                }
            }
        }
        let imports = modules.iter().map(|(module, names)| {
            let targets = names.used.iter().filter_map(|used| resolved(&known, module, &used.path));
            let targets = targets.map(|target| followed(&reexports, target).module);
            (module.clone(), targets.filter(|target| target != module).collect())
        });
        Self { imports: imports.collect() }
    }

    /// Every set of modules of which each reaches each other one.
    fn circles(&self) -> Vec<BTreeSet<ModulePath>> {
        let reached: BTreeMap<&ModulePath, BTreeSet<ModulePath>> =
            self.imports.keys().map(|module| (module, self.reached(module))).collect();
        let mut circles = BTreeSet::new();
        for (module, all) in &reached {
            let back =
                |other: &&ModulePath| reached.get(*other).is_some_and(|it| it.contains(*module));
            let circle: BTreeSet<ModulePath> = all.iter().filter(back).cloned().collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }

    /// The imports among these modules, for people.
    fn imports_within(&self, circle: &BTreeSet<ModulePath>) -> Vec<String> {
        let of_circle = |module: &&ModulePath| circle.contains(*module);
        let imports = self.imports.iter().filter(|(module, _)| of_circle(module));
        let line = |(module, targets): (&ModulePath, &BTreeSet<ModulePath>)| {
            let targets: Vec<String> =
                targets.iter().filter(of_circle).map(|target| target.join("::")).collect();
            format!("{} imports {}", module.join("::"), targets.join(", "))
        };
        imports.map(line).collect()
    }

    fn reached(&self, module: &ModulePath) -> BTreeSet<ModulePath> {
        let mut reached = BTreeSet::new();
        let mut waiting = vec![module];
        while let Some(next) = waiting.pop() {
            for target in self.imports.get(next).into_iter().flatten() {
                if reached.insert(target.clone()) {
                    waiting.push(target);
                }
            }
        }
        reached
    }
}

/// The module of a file; none for the root of a program beside a library.
fn module_of(folder: &str, path: &str) -> Option<ModulePath> {
    let inner = path.strip_prefix(folder)?.strip_prefix("/src/")?.strip_suffix(".rs")?;
    let mut module: ModulePath = inner.split('/').map(str::to_owned).collect();
    match module.last()?.as_str() {
        "main" | "tests" => return None,
        "lib" | "mod" => drop(module.pop()),
        _ => {}
    }
    Some(module)
}

/// A module, and the name in it that was meant; none if it was the module itself.
#[derive(Clone)]
struct NamedItem {
    module: ModulePath,
    name: Option<String>,
}

/// What a path means in a module; none if it begins in another crate.
fn resolved(
    known: &BTreeSet<&ModulePath>,
    here: &ModulePath,
    path: &[String],
) -> Option<NamedItem> {
    let mut module = here.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            module.clear();
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|word| word == "super") {
                module.pop();
                rest = &rest[1..];
            }
        }
        first => {
            let child = [here.as_slice(), &[first.to_owned()]].concat();
            known.contains(&child).then_some(())?;
        }
    }
    while let Some(word) = rest.first() {
        let child = [module.as_slice(), std::slice::from_ref(word)].concat();
        if !known.contains(&child) {
            break;
        }
        module = child;
        rest = &rest[1..];
    }
    Some(NamedItem { module, name: rest.first().filter(|word| *word != "self").cloned() })
}

fn followed(
    reexports: &BTreeMap<(ModulePath, String), NamedItem>,
    mut item: NamedItem,
) -> NamedItem {
    for _ in 0..REEXPORTS_MAX {
        let Some(name) = item.name.clone() else { break };
        let Some(target) = reexports.get(&(item.module.clone(), name)) else { break };
        item = target.clone();
    }
    item
}

/// The paths that a file names outside its tests.
#[derive(Default)]
struct NamedPaths {
    used: Vec<ImportedPath>,
    reexported: Vec<ImportedPath>,
}

/// A path, and the name that it has where it is imported.
struct ImportedPath {
    path: Vec<String>,
    name: String,
}

impl<'ast> Visit<'ast> for NamedPaths {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_private = matches!(item.vis, syn::Visibility::Inherited);
        let paths = if is_private { &mut self.used } else { &mut self.reexported };
        flatten(&item.tree, Vec::new(), paths);
    }

    /// Who may see an item is no import.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let path = path.segments.iter().map(|part| part.ident.to_string()).collect();
            self.used.push(ImportedPath { path, name: String::new() });
        }
        visit::visit_path(self, path);
    }
}

fn flatten(tree: &syn::UseTree, mut path: Vec<String>, paths: &mut Vec<ImportedPath>) {
    match tree {
        syn::UseTree::Path(part) => {
            path.push(part.ident.to_string());
            flatten(&part.tree, path, paths);
        }
        syn::UseTree::Group(group) => {
            for part in &group.items {
                flatten(part, path.clone(), paths);
            }
        }
        syn::UseTree::Name(name) => {
            path.push(name.ident.to_string());
            paths.push(ImportedPath { path, name: name.ident.to_string() });
        }
        syn::UseTree::Rename(rename) => {
            path.push(rename.ident.to_string());
            paths.push(ImportedPath { path, name: rename.rename.to_string() });
        }
        syn::UseTree::Glob(_) => paths.push(ImportedPath { path, name: String::new() }),
    }
}
