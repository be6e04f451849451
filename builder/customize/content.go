package customize

import (
	"spore/builder/image"
	"spore/builder/manifest"
)

// Content is what an image is with another configuration, for those who bring it to running nodes.
type Content struct {
	// RootHash is that of the root, ClusterHash that of the cluster part.
	RootHash, ClusterHash string
	// Root is the root, until the change is closed. Tree is where its hash tree begins; what the image has behind that
	// may follow.
	Root, Tree image.Source
	// Manifest is what the root says of itself.
	Manifest *manifest.Manifest
	// ClusterFile is the file of the cluster part with its hash tree, until the change is closed; UKI is what starts
	// it.
	ClusterFile string
	UKI         []byte
	// Loader is the boot loader as it goes to an ESP; empty where the image has none.
	Loader []byte
}

// Content is what the change is made of.
func (c *Change) Content() Content {
	o := c.original
	return Content{
		RootHash: o.root.Hash, ClusterHash: c.media.ClusterHash, Root: o.root.Squashfs, Tree: o.root.Verity, Manifest: o.manifest,
		ClusterFile: c.media.ClusterFile, UKI: c.media.UKI, Loader: c.media.Loader,
	}
}
