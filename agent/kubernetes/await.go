package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Times of a wait for a node, on a machine of usual speed.
const (
	// awaitEvery is how often the API server is asked.
	awaitEvery = time.Second
	// awaitSay is how often the wait says why it goes on.
	awaitSay = 30 * time.Second
)

// AwaitNode waits until Kubernetes has an object for the node of this name, which its kubelet makes, and says what it waits
// for. It ends with the context.
func (c *Client) AwaitNode(ctx context.Context, name string, slow int, say func(string)) error {
	factor := time.Duration(max(slow, 1))
	path := "/api/v1/nodes/" + url.PathEscape(name)
	var said time.Time
	for {
		err := c.get(ctx, path, nil)
		if err == nil {
			return nil
		}
		if isStatus(err, http.StatusNotFound) {
			err = errors.New("its kubelet has not registered it yet")
		}
		if time.Since(said) >= awaitSay*factor {
			say(fmt.Sprintf("waiting for node %s of Kubernetes: %v", name, err))
			said = time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for node %s of Kubernetes: %w: %w", name, ctx.Err(), err)
		case <-time.After(awaitEvery * factor):
		}
	}
}
