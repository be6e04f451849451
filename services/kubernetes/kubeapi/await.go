package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Times of a wait, on a machine of usual speed.
const (
	// awaitEvery is how often the API server is asked.
	awaitEvery = time.Second
	// awaitSay is how often the wait says why it goes on.
	awaitSay = 30 * time.Second
)

// AwaitNode waits until Kubernetes has an object for the node of this name, which its kubelet makes, and says what it waits
// for. It ends with the context.
func (c *Client) AwaitNode(ctx context.Context, name string, slow int, say func(string)) error {
	return await(ctx, "node "+name+" of Kubernetes", slow, say, func() error {
		err := c.get(ctx, "/api/v1/nodes/"+url.PathEscape(name), nil)
		if isStatus(err, http.StatusNotFound) {
			return errors.New("its kubelet has not registered it yet")
		}
		return err
	})
}

// AwaitReady waits until an API server is ready, and says what it waits for. It ends with the context.
func (c *Client) AwaitReady(ctx context.Context, slow int, say func(string)) error {
	return await(ctx, "an API server that is ready", slow, say, func() error { return c.Ready(ctx) })
}

// AwaitAllowed waits until an API server is ready and lets the client do a thing, such as "create" "widgets.example.org", and
// says what it waits for: a cluster that begins has rules only when a master has applied them. It ends with the context.
func (c *Client) AwaitAllowed(ctx context.Context, verb, resource string, slow int, say func(string)) error {
	return await(ctx, fmt.Sprintf("an API server that is ready and allows to %s %s", verb, resource), slow, say, func() error {
		if err := c.Ready(ctx); err != nil {
			return err
		}
		return c.allowed(ctx, verb, resource)
	})
}

// allowed asks the API server what it would say (authorization.k8s.io/v1, SelfSubjectAccessReview).
func (c *Client) allowed(ctx context.Context, verb, resource string) error {
	name, group, _ := strings.Cut(resource, ".")
	var answer struct {
		Status struct{ Allowed bool }
	}
	err := c.do(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json", Object{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": Object{"resourceAttributes": Object{"verb": verb, "group": group, "resource": name}},
	}, &answer)
	if err == nil && !answer.Status.Allowed {
		err = errors.New("no master has applied the rules of this cluster yet")
	}
	return err
}

// await asks again and again until there is no error.
func await(ctx context.Context, what string, slow int, say func(string), ask func() error) error {
	factor := time.Duration(max(slow, 1))
	var said time.Time
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if time.Since(said) >= awaitSay*factor {
			say(fmt.Sprintf("waiting for %s: %v", what, err))
			said = time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %w", what, ctx.Err(), err)
		case <-time.After(awaitEvery * factor):
		}
	}
}
