//! Which media lie in which folder of a vault. Platforms call folders differently and show them
//! differently; what lies in them is the same: media of the vault, generated or put in while
//! running.

use crate::overlay::Overlay;
use crate::world::World;
use crate::world::series::Series;

/// The media of one folder.
pub(crate) struct FolderMedia {
    /// The table of what was written.
    pub(crate) table: String,
    /// What was generated.
    pub(crate) series: Series,
}

impl FolderMedia {
    /// The media of the folder with this index.
    pub(crate) fn of(world: &World, folder: u64) -> Self {
        Self { table: format!("folder-media/{folder}"), series: world.folder_media(folder) }
    }

    /// How many there are.
    pub(crate) fn count(&self, overlay: &Overlay) -> u64 {
        overlay.count(&self.table, self.series)
    }

    /// Whether the medium lies in the folder.
    pub(crate) fn holds(&self, overlay: &Overlay, medium: u64) -> bool {
        overlay.holds(&self.table, self.series, medium)
    }

    /// Puts media into the folder, the last one to the front; those that lie there stay in place.
    pub(crate) fn add(&self, overlay: &mut Overlay, media: Vec<u64>) {
        for medium in media {
            overlay.put_new(&self.table, self.series, medium);
        }
    }

    /// Takes media out of the folder; they stay in the vault.
    pub(crate) fn remove(&self, overlay: &mut Overlay, media: Vec<u64>) {
        for medium in media {
            overlay.take(&self.table, medium);
        }
    }
}
