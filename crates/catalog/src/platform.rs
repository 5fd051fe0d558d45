//! The catalogue of one platform.

use std::collections::{HashMap, HashSet};

use domain::dataset::DatasetName;
use domain::method::Method;
use domain::platform::Platform;
use serde_json::{Map, Value};

use crate::auth_fields::{self, AuthField, AuthValues};
use crate::dataset::{Dataset, MediaArchive};
use crate::dataset_file;
use crate::entry_problem::EntryProblem;
use crate::file::CatalogFile;
use crate::file_writer;
use crate::matcher::{self, RouteMatcher};
use crate::operation::{self, RouteOperation};
use crate::route::{Route, RouteKind};
use crate::{CatalogError, FieldProblem, shorthand};

/// The routes and the `auth` fields of one platform.
#[derive(Debug, Clone)]
pub struct PlatformCatalog {
    /// What customers see.
    routes: Vec<Route>,
    /// What only the gateway itself calls.
    internal: Vec<Route>,
    auth_fields: Vec<AuthField>,
    datasets: Vec<Dataset>,
    media_archive: Option<MediaArchive>,
    matcher: RouteMatcher,
    /// How documents name the routes, in their order.
    operations: Vec<RouteOperation>,
}

/// For what the service sets a query parameter itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterSetter<'a> {
    /// To read the pages of a dataset.
    Dataset(DatasetName),
    /// In calls of the route of this name that leave it out.
    Route(&'a str),
}

/// A route that a path belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchedRoute<'a> {
    /// The route.
    pub route: &'a Route,
    /// The template's parameters: name, and value as the caller sent it (still percent-encoded).
    pub parameters: Vec<(&'a str, &'a str)>,
}

impl MatchedRoute<'_> {
    /// The values of parameters that are text of the creator's own: slashes may stand in them,
    /// percent-encoded.
    pub fn free_text(&self) -> impl Iterator<Item = &str> {
        let names = &self.route.free_text;
        let free = self.parameters.iter().filter(|(name, _)| names.iter().any(|own| own == name));
        free.map(|(_, value)| *value)
    }
}

impl PlatformCatalog {
    pub(crate) fn new(platform: Platform, file: CatalogFile) -> Result<Self, CatalogError> {
        let refused = |problem| CatalogError::File { platform, problem };
        file.check().map_err(|entry| refused(entry.problem))?;
        let mut datasets = file.datasets;
        dataset_file::resolve(&mut datasets, &file.routes.iter().collect::<Vec<_>>())
            .map_err(refused)?;
        let (internal, routes): (Vec<Route>, Vec<Route>) =
            file.routes.into_iter().partition(|route| route.kind == RouteKind::Internal);
        let matcher = RouteMatcher::new(&routes);
        let operations = operation::operations(&routes);
        let (auth_fields, media_archive) = (file.auth_fields, file.media_archive);
        Ok(Self { routes, internal, auth_fields, datasets, media_archive, matcher, operations })
    }

    /// The catalogue of a platform that nothing is known of.
    pub(crate) fn empty() -> Self {
        Self {
            routes: Vec::new(),
            internal: Vec::new(),
            auth_fields: Vec::new(),
            datasets: Vec::new(),
            media_archive: None,
            matcher: RouteMatcher::new(&[]),
            operations: Vec::new(),
        }
    }

    /// Adds a further file: entries for the same method and paths, and fields of the same name, are
    /// replaced.
    pub(crate) fn with(self, platform: Platform, file: CatalogFile) -> Result<Self, CatalogError> {
        let mut all = CatalogFile {
            auth_fields: self.auth_fields,
            routes: self.routes,
            datasets: self.datasets,
            media_archive: file.media_archive.or(self.media_archive),
        };
        all.routes.extend(self.internal);
        all.merge_routes(file.routes);
        for field in file.auth_fields {
            match all.auth_fields.iter_mut().find(|known| known.name == field.name) {
                Some(known) => *known = field,
                None => all.auth_fields.push(field),
            }
        }
        for dataset in file.datasets {
            match all.datasets.iter_mut().find(|known| known.name == dataset.name) {
                Some(known) => *known = dataset,
                None => all.datasets.push(dataset),
            }
        }
        Self::new(platform, all)
    }

    /// Takes the routes from a file alone, and auth fields and datasets too where it has any.
    /// Datasets of before stay where the file has their routes.
    pub(crate) fn replaced_by(
        self,
        platform: Platform,
        mut file: CatalogFile,
    ) -> Result<Self, CatalogError> {
        if file.routes.is_empty() {
            let problem =
                "it has no [[routes]], and none would be left: merge it instead, or fill it";
            let problem = problem.to_owned();
            return Err(CatalogError::File { platform, problem });
        }
        if file.auth_fields.is_empty() {
            file.auth_fields = self.auth_fields;
        }
        if file.datasets.is_empty() {
            let routes: Vec<&Route> = file.routes.iter().collect();
            file.datasets = dataset_file::readable(self.datasets, &routes);
        }
        file.media_archive = file.media_archive.or(self.media_archive);
        Self::new(platform, file)
    }

    /// The routes that customers see, in file order: shorthands and the upload included.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The routes that customers see, each with its name and path in the platform's document.
    pub fn operations(&self) -> impl ExactSizeIterator<Item = (&Route, &RouteOperation)> {
        self.routes.iter().zip(&self.operations)
    }

    /// The route of a native call: a path after `/native/`, percent-encoded as the caller sent it
    /// and without its query. Nothing when no entry is for it; the upload and internal entries are
    /// never found.
    pub fn find<'a>(&'a self, method: Method, raw_path: &'a str) -> Option<MatchedRoute<'a>> {
        let route = self.routes.get(self.matcher.find(method, raw_path)?)?;
        Some(MatchedRoute { route, parameters: matcher::parameters(route, raw_path) })
    }

    /// The entry of the upload, on the platform that has one.
    pub fn upload(&self) -> Option<&Route> {
        self.routes.iter().find(|route| route.kind == RouteKind::Upload)
    }

    /// Whether a native call is the platform's upload: a path after `/native/`, as the caller sent
    /// it. A slash at its end changes nothing, since platforms differ in what they make of it.
    pub fn is_upload(&self, method: Method, raw_path: &str) -> bool {
        let path = raw_path.strip_suffix('/').unwrap_or(raw_path);
        self.upload()
            .is_some_and(|upload| upload.method == method && is_same_path(&upload.template, path))
    }

    /// The entries that only the gateway itself calls.
    pub fn internal_routes(&self) -> &[Route] {
        &self.internal
    }

    /// The fields of `auth` that an account is connected with.
    pub fn auth_fields(&self) -> &[AuthField] {
        &self.auth_fields
    }

    /// What can be exported, in file order.
    pub fn datasets(&self) -> &[Dataset] {
        &self.datasets
    }

    /// One of the datasets, if the platform has it.
    pub fn dataset(&self, name: DatasetName) -> Option<&Dataset> {
        self.datasets.iter().find(|dataset| dataset.name == name)
    }

    /// Where the service sets this query parameter itself: for the pages of a dataset, or for calls
    /// of a route that leave it out.
    pub fn setter_of(&self, parameter: &str) -> Option<ParameterSetter<'_>> {
        let is_it = |(name, _): &(String, String)| name == parameter;
        let dataset = self.datasets.iter().find(|dataset| dataset.sets_parameter(parameter));
        let route = || {
            self.routes.iter().find(|route| {
                let fills = route.shorthand().map_or(&[][..], |shorthand| &shorthand.fills);
                route.default_query.iter().chain(fills).any(is_it)
            })
        };
        dataset
            .map(|dataset| ParameterSetter::Dataset(dataset.name))
            .or_else(|| route().map(|route| ParameterSetter::Route(&route.name)))
    }

    /// Why there are no archives of media.
    pub fn media_archive(&self) -> MediaArchive {
        self.media_archive.unwrap_or(MediaArchive::NotOffered)
    }

    /// Checks an `auth` object: unknown, missing, mistyped, too long, empty or with control
    /// characters. Every problem is reported at once.
    pub fn check_auth(&self, auth: &Map<String, Value>) -> Result<AuthValues, Vec<FieldProblem>> {
        auth_fields::check(&self.auth_fields, auth)
    }

    /// The whole catalogue as a catalogue file.
    pub fn to_toml(&self) -> String {
        let routes = self.routes.iter().chain(&self.internal);
        file_writer::write(&self.auth_fields, routes, &self.datasets, self.media_archive)
    }
}

/// Whether a percent-encoded path is this plain one, in whatever letters: a platform may read it
/// so.
fn is_same_path(plain: &str, raw_path: &str) -> bool {
    let decoded = shorthand::decode(raw_path);
    decoded.eq_ignore_ascii_case(plain.as_bytes())
}

impl CatalogFile {
    /// Adds routes; one for the same calls is replaced in its place.
    fn merge_routes(&mut self, routes: Vec<Route>) {
        let numbered = self.routes.iter().enumerate();
        let places: HashMap<RouteKey, usize> =
            numbered.map(|(index, route)| (route.key(), index)).collect();
        for route in routes {
            let place = places.get(&route.key());
            match place.and_then(|index| self.routes.get_mut(*index)) {
                Some(known) => *known = route,
                None => self.routes.push(route),
            }
        }
    }

    /// Finds two entries for the same calls, or two fields or datasets of one name.
    pub(crate) fn check(&self) -> Result<(), EntryProblem> {
        let refused = |list, index, problem| Err(EntryProblem { list, index, problem });
        let mut keys = HashSet::new();
        let routes = || self.routes.iter().enumerate();
        if let Some((index, route)) = routes().find(|(_, route)| !keys.insert(route.key())) {
            return refused("routes", index, format!("two entries are for {}", route.name));
        }
        let mut names = HashSet::new();
        let mut fields = self.auth_fields.iter().enumerate();
        if let Some((index, field)) = fields.find(|(_, field)| !names.insert(&field.name)) {
            return refused(
                "auth_fields",
                index,
                format!("two auth fields are called {}", field.name),
            );
        }
        let mut known = HashSet::new();
        let mut datasets = self.datasets.iter().enumerate();
        if let Some((index, dataset)) = datasets.find(|(_, dataset)| !known.insert(dataset.name)) {
            return refused("datasets", index, format!("two datasets are called {}", dataset.name));
        }
        let mut uploads = routes().filter(|(_, route)| route.kind == RouteKind::Upload);
        if let Some((index, _)) = uploads.nth(1) {
            return refused("routes", index, "there is more than one upload".to_owned());
        }
        Ok(())
    }
}

/// What tells routes apart: where they are looked for, the method, and which paths they match.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RouteKey {
    place: RoutePlane,
    method: Method,
    shape: String,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum RoutePlane {
    Native,
    Upload,
    Internal,
}

impl Route {
    fn key(&self) -> RouteKey {
        let place = match self.kind {
            RouteKind::Native | RouteKind::Shorthand(_) => RoutePlane::Native,
            RouteKind::Upload => RoutePlane::Upload,
            RouteKind::Internal => RoutePlane::Internal,
        };
        RouteKey { place, method: self.method, shape: self.parsed.shape() }
    }
}
