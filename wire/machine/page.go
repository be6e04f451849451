package machine

// Page is a part of the answer to a request of the page of the store of metrics (verb metrics-page). The first part has
// all but the rest of the body.
type Page struct {
	// Status is the one of HTTP, and Type the media type.
	Status int    `json:"status,omitempty"`
	Type   string `json:"type,omitempty"`
	// Body is a part of the body.
	Body []byte `json:"body,omitempty"`
}
