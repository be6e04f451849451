package kubeapi

import (
	"context"
	"encoding/json"
)

// Call is a call of the API that no function of the client is for.
type Call struct {
	Method string
	// Path has the query, too.
	Path string
	// Type is the media type of Body.
	Type string
	// Body is sent as JSON, and the answer read into Into; each may be nil.
	Body, Into any
}

// Do makes a call. An answer that is no success is a StatusError.
func (c *Client) Do(ctx context.Context, r Call) error {
	return c.do(ctx, r.Method, r.Path, r.Type, r.Body, r.Into)
}

// List calls each for every object of a collection that a selector of labels chooses.
func (c *Client) List(ctx context.Context, path, selector string, each func(json.RawMessage) error) error {
	_, err := c.list(ctx, path, selector, each)
	return err
}

// IsStatus tells whether an error is an answer with this code (net/http).
func IsStatus(err error, code int) bool { return isStatus(err, code) }
