package machine

// ConfigurationFile is a file of the configuration that a node runs (verb configuration-show; each part of the result is
// a list).
type ConfigurationFile struct {
	// Path is that in the operator's folder.
	Path string `json:"path"`
	// SHA256 is of its content, in hexadecimal, and Size is in bytes.
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	// Text is its content, where it was asked for.
	Text string `json:"text,omitempty"`
}
