package metrics

import (
	"context"
	"fmt"
	"io"
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
	answer, err := s.do(ctx, r, http.MethodGet, target, nil)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	page := machine.Page{Status: answer.StatusCode, Type: answer.Header.Get("Content-Type")}
	if len(page.Type) > maxType {
		page.Type = ""
	}
	// A page asks for several things at once; so no answer is held as a whole.
	all := 0
	for first := true; ; first = false {
		// Unlike io.ReadFull, it tells an answer that was cut off from one that has ended.
		page.Body, err = io.ReadAll(io.LimitReader(answer.Body, maxPart))
		if err != nil {
			return "", fmt.Errorf("read what the store answers: %w", err)
		}
		if all += len(page.Body); all > maxAnswer {
			return "", errTooMuch
		}
		ended := len(page.Body) < maxPart
		if first || len(page.Body) > 0 {
			if err := r.Result(page); err != nil {
				return "", err
			}
		}
		if ended {
			return http.StatusText(answer.StatusCode), nil
		}
		page = machine.Page{}
	}
}
