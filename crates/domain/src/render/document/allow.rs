//! What a job may use. Whoever can write a render could otherwise read any file of the nodes, and run any module there.

use super::super::path::NodePath;
use super::COPY_MODULE;

/// What is allowed. What is in no list is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowList {
    pub template_folders: Vec<NodePath>,
    /// Where images and other assets lie, besides the folders of templates.
    pub asset_folders: Vec<NodePath>,
    /// With what addresses of assets begin, besides `file`: `https`, for example.
    pub schemes: Vec<String>,
    /// Which modules of nexrender run.
    pub modules: Vec<String>,
}

impl Default for AllowList {
    /// The module that copies, and nothing else.
    fn default() -> Self {
        Self {
            template_folders: Vec::new(),
            asset_folders: Vec::new(),
            schemes: Vec::new(),
            modules: vec![COPY_MODULE.to_owned()],
        }
    }
}

impl AllowList {
    pub fn has_template(&self, path: &NodePath) -> bool {
        self.template_folders.iter().any(|folder| path.is_in(folder))
    }

    pub fn has_asset(&self, path: &NodePath) -> bool {
        self.asset_folders.iter().chain(&self.template_folders).any(|folder| path.is_in(folder))
    }

    pub fn has_scheme(&self, scheme: &str) -> bool {
        self.schemes.iter().any(|allowed| allowed.eq_ignore_ascii_case(scheme))
    }

    pub fn has_module(&self, module: &str) -> bool {
        self.modules.iter().any(|allowed| allowed == module)
    }
}
