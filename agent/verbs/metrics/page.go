package metrics

import (
	"context"
	"fmt"
	"net/http"

	"spore/agent/verbs"
	"spore/services/metrics"
	"spore/wire/machine"
)

// maxType bounds the media type of an answer, in bytes.
const maxType = 128

// Page answers what the page of the store asks for: its files, and what it reads of the store. Which paths that are
// says the table of verbs.
func (s Store) Page(ctx context.Context, r *verbs.Run) (string, error) {
	if !metrics.Stores(r.Cluster, r.Node.Name) {
		return "", fmt.Errorf("%s has no store of metrics; ask a node with the role %s", r.Node.Name, metrics.Role)
	}
	target := r.Argument("path", "")
	if q := r.Argument("query", ""); q != "" {
		target += "?" + q
	}
	answer, data, err := s.do(ctx, r, http.MethodGet, target, nil)
	if err != nil {
		return "", err
	}
	page := machine.Page{Status: answer.StatusCode, Type: answer.Header.Get("Content-Type")}
	if len(page.Type) > maxType {
		page.Type = ""
	}
	for first := true; first || len(data) > 0; first = false {
		n := min(len(data), maxPart)
		page.Body, data = data[:n], data[n:]
		if err := r.Result(page); err != nil {
			return "", err
		}
		page = machine.Page{}
	}
	return http.StatusText(answer.StatusCode), nil
}
