package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// refusedPause is how long one waits who was refused: the load is to be the server's and not the client's.
const refusedPause = 100 * time.Millisecond

// KubernetesAPI is the API of Kubernetes as a plain HTTP client has it.
type KubernetesAPI struct {
	// URL is the server's, without a path.
	URL  string
	HTTP *http.Client
}

// Do asks, reads the answer to its end, and wants this status.
func (a KubernetesAPI) Do(ctx context.Context, method, path, body string, want int) error {
	req, err := http.NewRequestWithContext(ctx, method, a.URL+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := a.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != want {
		return fmt.Errorf("%s %s: %s", method, path, res.Status)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// configMaps is the path of those of a namespace.
func configMaps(namespace string) string { return "/api/v1/namespaces/" + namespace + "/configmaps" }

// Answers tells whether the API is ready and takes a write in the namespace.
func (a KubernetesAPI) Answers(ctx context.Context, namespace string) error {
	if err := a.Do(ctx, http.MethodGet, "/readyz", "", http.StatusOK); err != nil {
		return err
	}
	return a.Do(ctx, http.MethodPost, configMaps(namespace), `{"metadata": {"generateName": "answer-"}}`, http.StatusCreated)
}

// Load watches and writes in the namespace until stop, which waits for all of it to end. What becomes of a single request does
// not matter.
func (a KubernetesAPI) Load(namespace string, watches, writers int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	again := func(ask func(i int) error) {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if ask(i) != nil {
					time.Sleep(refusedPause)
				}
			}
		})
	}
	for range watches {
		again(func(int) error { return a.Do(ctx, http.MethodGet, "/api/v1/configmaps?watch=true", "", http.StatusOK) })
	}
	for w := range writers {
		again(func(i int) error {
			body := fmt.Sprintf(`{"metadata": {"name": "load-%d-%d"}}`, w, i)
			return a.Do(ctx, http.MethodPost, configMaps(namespace), body, http.StatusCreated)
		})
	}
	return func() { cancel(); all.Wait() }
}
