package customize

// Content is what an image gets besides its root.
type Content struct {
	// RootHash is that of the root, which stays, ClusterHash that of the cluster part.
	RootHash, ClusterHash string
	// ClusterFile is the file of the cluster part with its hash tree, until the change is closed; UKI is what starts it.
	ClusterFile string
	UKI         []byte
}

// Content is what the change writes, for those who bring it to running nodes.
func (c *Change) Content() Content {
	return Content{RootHash: c.original.root.Hash, ClusterHash: c.media.ClusterHash, ClusterFile: c.media.ClusterFile, UKI: c.media.UKI}
}
