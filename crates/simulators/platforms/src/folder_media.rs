//! The media in the folders of a vault. Platforms name and show folders differently; their content
//! is the same: media of the vault, generated or added while running.

use crate::overlay::Overlay;
use crate::world::World;
use crate::world::series::Series;

/// The media of one folder.
pub(crate) struct FolderMedia {
    /// The table of the changes.
    pub(crate) table: String,
    /// The generated media.
    pub(crate) series: Series,
}

impl FolderMedia {
    /// The media of the folder with this index.
    pub(crate) fn of(world: &World, folder: u64) -> Self {
        Self { table: format!("folder-media/{folder}"), series: world.folder_media(folder) }
    }

    /// The number of media in it.
    pub(crate) fn count(&self, overlay: &Overlay) -> u64 {
        overlay.count(&self.table, self.series)
    }

    /// Whether it contains the medium.
    pub(crate) fn holds(&self, overlay: &Overlay, medium: u64) -> bool {
        overlay.holds(&self.table, self.series, medium)
    }

    /// Adds media to the folder, the last one at the front; media that are already in it keep their
    /// positions.
    pub(crate) fn add(&self, overlay: &mut Overlay, media: Vec<u64>) {
        for medium in media {
            overlay.put_new(&self.table, self.series, medium);
        }
    }

    /// Removes media from the folder; they stay in the vault.
    pub(crate) fn remove(&self, overlay: &mut Overlay, media: Vec<u64>) {
        for medium in media {
            overlay.take(&self.table, medium);
        }
    }
}
