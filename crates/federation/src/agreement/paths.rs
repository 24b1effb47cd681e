//! Who really crawls which pages, by way of whom.

use super::terms::EngineId;
use crate::view::{Answer, Boxes, View};
use farol_base::Timestamp;
use std::time::Duration;

/// Most engines in a path.
pub const PATH_MAX: usize = 8;

/// Until when a path is known to hold, on the clock of who knows; `None`: as long as it is not told otherwise.
pub type Horizon = Option<Timestamp>;

/// A path that nothing can end is good for this long, as it travels.
pub(crate) const ENDLESS: Duration = Duration::from_secs(u32::MAX as u64);

/// Some pages, and the engines that they are left to one after the other; the last one crawls them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPart {
    /// Which pages.
    pub view: View,
    /// By way of whom.
    pub path: Vec<EngineId>,
}

/// Whether two views may have a page in common. Views too intricate to compare may.
pub(crate) fn may_meet(a: &View, b: &View) -> bool {
    a.intersects(b).map_or(true, |(answer, _)| answer != Answer::No)
}

/// Whether one view surely holds another.
pub(crate) fn surely_holds(a: &View, b: &View) -> bool {
    a.contains(b).is_ok_and(|(answer, _)| answer == Answer::Yes)
}

/// The path of `over` for an engine that leaves some parts to others, and crawls the rest itself.
pub(crate) fn path_of<'a>(
    me: EngineId,
    over: &View,
    left: impl Iterator<Item = (&'a View, &'a [PathPart])>,
) -> Vec<PathPart> {
    let mut parts = Vec::new();
    let mut rest = over.clone();
    for (view, beyond) in left.filter(|(view, _)| may_meet(over, view)) {
        for part in beyond.iter().filter(|part| may_meet(over, &part.view)) {
            let path = std::iter::once(me).chain(part.path.iter().copied()).collect();
            parts.push(PathPart { view: small(over.and(&part.view).and(view)), path });
        }
        rest = small(rest.minus(view));
    }
    // Where that cannot be told, the engine is named as one that crawls: a longer list is never a loop unseen.
    if rest.boxes().map_or(true, |boxes| boxes.any_page().0 != Answer::No) {
        parts.push(PathPart { view: rest, path: vec![me] });
    }
    parts
}

/// A view in normal form, where that is the shorter one.
fn small(view: View) -> View {
    let normal = view.boxes().map(|boxes: Boxes| boxes.to_view());
    normal.ok().filter(|normal| normal.as_str().len() < view.as_str().len()).unwrap_or(view)
}
